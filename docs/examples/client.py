"""Opens the port of a lineside box, sends a line of text, and prints the log live.

usage: client.py ADDRESS PORT BAUD TEXT [CA_FILE TOKEN_FILE]

ADDRESS is host:port or unix:PATH. With CA_FILE and TOKEN_FILE the connection uses TLS and the token; without them it is for the
Unix socket and loopback. Make serial_pb2.py and serial_pb2_grpc.py beside this file first:
  python3 -m grpc_tools.protoc -I proto --python_out . --grpc_python_out . serial.proto
"""
import sys

import grpc
import serial_pb2 as pb
import serial_pb2_grpc as rpc
from google.protobuf.empty_pb2 import Empty

ADDRESS, PORT, BAUD, TEXT = sys.argv[1:5]
CA_FILE, TOKEN_FILE = (sys.argv[5:] + [None, None])[:2]
LIMIT_S = 10  # every call without a limit could wait for ever


def connect():
    if CA_FILE is None:
        return grpc.insecure_channel(ADDRESS)
    with open(CA_FILE, 'rb') as ca, open(TOKEN_FILE) as token:
        tls = grpc.ssl_channel_credentials(ca.read())
        bearer = grpc.access_token_call_credentials(token.read().strip())  # metadata "authorization: Bearer TOKEN"
    return grpc.secure_channel(ADDRESS, grpc.composite_channel_credentials(tls, bearer))


def check(answer):
    """Open, Close and SendPacket answer with a status of their own; other failures are gRPC errors."""
    if answer.status != pb.OK:
        sys.exit(f'{pb.StatusCode.Name(answer.status)}: {answer.error}')


def main():
    stub = rpc.SerialServiceStub(connect())
    # The stream first: its headers arrive when it is established, so no entry from then on is missing.
    log = stub.StreamLog(pb.LogStreamRequest(from_start=False))
    log.initial_metadata()
    # Opening restarts the port for all users: only do it if the port is not open as it should be.
    wanted = pb.SerialConfig(port_name=PORT, baud_rate=int(BAUD), data_bits=8)
    if stub.GetCurrentConfig(Empty(), timeout=LIMIT_S) != wanted:
        check(stub.Open(wanted, timeout=LIMIT_S))
    check(stub.SendPacket(pb.Packet(seq_id=1, payload=TEXT.encode() + b'\r\n'), timeout=LIMIT_S))
    for entry in log:
        direction = 'RX' if entry.dir == pb.SerialLogEntry.RX else 'TX'
        print(entry.timestamp, direction, entry.raw_data, entry.note, flush=True)


try:
    main()
except grpc.RpcError as error:
    # UNAVAILABLE: the service restarts or is unreachable; connect again. UNAUTHENTICATED: the token was revoked.
    sys.exit(f'{error.code().name}: {error.details()}')
except KeyboardInterrupt:
    pass
