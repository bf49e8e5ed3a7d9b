"""Any program with pyserial, on rfc2217://: prints the incoming lines whenever one has changed: CTS, DSR, RI, CD."""
import json
import sys
import time

import serial

port = serial.serial_for_url(sys.argv[1], baudrate=9600, timeout=1)
last = None
while True:
    lines = [port.cts, port.dsr, port.ri, port.cd]
    if lines != last:
        print(json.dumps({"lines": lines}), flush=True)
    last = lines
    time.sleep(0.05)
