"""Any program with pyserial, on a device file: prints one JSON object of what it saw, and another after a line on standard input."""
import json
import sys

import serial

port = serial.Serial(sys.argv[1], baudrate=9600, timeout=5)
seen = {}
every = bytes(range(256)) * 200
port.write(every)
seen["echo"] = port.read(len(every)) == every
port.baudrate = 57600
port.write(b"after the change")
seen["after"] = port.read(16).decode()
port.timeout = 20
print(json.dumps(seen), flush=True)
sys.stdin.readline()
try:
    port.write(b"once")
    seen["end"] = port.read(4).decode()
except (OSError, serial.SerialException):
    seen["end"] = "hang-up"
print(json.dumps(seen), flush=True)
