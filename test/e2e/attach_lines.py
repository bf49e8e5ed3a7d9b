"""A program on a device file that sends each line of standard input, and prints what it reads back as a JSON object."""
import json
import sys

import serial

port = serial.Serial(sys.argv[1], baudrate=9600, timeout=2)
for line in sys.stdin:
    sent = line.strip().encode()
    try:
        port.write(sent)
        read = port.read(len(sent)).decode()
    except (OSError, serial.SerialException):
        read = "hang-up"
    print(json.dumps({"read": read}), flush=True)
