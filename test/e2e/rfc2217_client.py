"""Any program with pyserial, on rfc2217://: prints one JSON object of what it saw."""
import json
import sys
import time

import serial

url = sys.argv[1]
port = serial.serial_for_url(url, baudrate=9600, bytesize=7, parity="E", stopbits=2, timeout=5)
seen = {}
every = bytes(range(256)) * 40
port.write(every)
seen["echo"] = port.read(len(every)) == every
port.baudrate = 57600
port.xonxoff = True
port.xonxoff = False
port.write(b"after the change")
seen["after"] = port.read(16).decode()
port.write(b"purged")
port.timeout = 0.3
while port.in_waiting < 6:
    pass
port.reset_input_buffer()
port.reset_output_buffer()
seen["purged"] = len(port.read(6))
port.dtr = False
port.rts = True
port.send_break(0.05)
seen["modem"] = [port.cts, port.dsr, port.ri, port.cd]
print(json.dumps(seen), flush=True)
sys.stdin.read()
port.timeout = 20
began = time.monotonic()
try:
    # pyserial shows a hang-up as an early end of a read that had begun, and as an error of the next.
    got = port.read(1)
    seen["end"] = "hang-up" if got == b"" and time.monotonic() - began < 15 else repr(got)
except serial.SerialException:
    seen["end"] = "hang-up"
print(json.dumps(seen), flush=True)
