"""A Modbus RTU master with pymodbus: PORT BAUD [COUNT]. Prints how many answers were right, and the median round trip in ms."""
import json
import sys
import time

from pymodbus.client import ModbusSerialClient

port, baud, count = sys.argv[1], int(sys.argv[2]), int((sys.argv + ["30"])[3])
REGISTERS = 10
client = ModbusSerialClient(port=port, baudrate=baud, timeout=5)
if not client.connect():
    sys.exit(f"cannot open {port}")
right, took = 0, []
for n in range(count):
    began = time.monotonic()
    answer = client.read_holding_registers(n, REGISTERS, slave=1)
    took.append(time.monotonic() - began)
    right += not answer.isError() and answer.registers == [(n + i) * 257 & 0xFFFF for i in range(REGISTERS)]
client.close()
print(json.dumps({"right": right, "p50": round(1000 * sorted(took)[count // 2], 1)}), flush=True)
