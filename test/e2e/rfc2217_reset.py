"""A bootloader's tool on rfc2217://: resets the device by DTR and RTS as esptool does (its ClassicReset), twice, then writes."""
import json
import sys
import time

import serial

port = serial.serial_for_url(sys.argv[1], baudrate=115200, timeout=1)
for _ in range(2):
    port.dtr = False
    port.rts = True
    time.sleep(0.1)
    port.dtr = True
    port.rts = False
    time.sleep(0.05)
    port.dtr = False
port.write(b"7")
port.close()
print(json.dumps({"done": True}), flush=True)
