/*
 * A UART with a device behind it: a pseudo-terminal of its own, whose slave is the port. A pseudo-terminal has no speed;
 * this program writes at the pace of the baud rate (8N1), in bursts as a FIFO reports them: each when its last byte has been
 * on the wire, the last one of a frame 4 characters later if it is not full. It reports when it wrote what. At real-time
 * priority if it may. Prints the slave's path, then takes commands from standard input, and ends each with an empty line.
 *
 *   frames COUNT BAUD BURST PAUSE_US          frames with a silence of PAUSE_US between them
 *   stops COUNT BAUD BURST PAUSE_US PID MS    the same; in each, the process is stopped for MS after the second burst
 */
#include "../pty.h"

#define BITS_PER_CHARACTER 10
#define TIMEOUT_CHARACTERS 4
#define FRAME_BYTES 45
#define STOP_AFTER_BURSTS 2

/* A stop of the process that reads the port, for at least stop_ns. */
struct stop {
  pid_t pid;
  int64_t stop_ns, until_ns;
  double from_wall_ms, to_wall_ms;
  /* Bytes that it must find when it resumes: the burst before the stop and all that was written since. */
  int bytes, handed_over;
};

static void begin_stop(struct stop *stop, size_t burst) {
  if (kill(stop->pid, SIGSTOP) < 0) die("SIGSTOP");
  stop->from_wall_ms = (double)ns_of(CLOCK_REALTIME) / 1e6;
  stop->until_ns = now_ns() + stop->stop_ns;
  stop->bytes = (int)burst;
}

static void end_stop(struct stop *stop) {
  sleep_until(stop->until_ns);
  stop->handed_over = waiting_bytes() >= stop->bytes;
  if (kill(stop->pid, SIGCONT) < 0) die("SIGCONT");
  stop->to_wall_ms = (double)ns_of(CLOCK_REALTIME) / 1e6;
  stop->until_ns = 0;
}

/* Writes a frame that begins on the wire at from_ns; gives the moment at which it has ended there. */
static int64_t put(const uint8_t *frame, size_t size, int64_t from_ns, double character_ns, size_t burst, struct stop stop) {
  printf("{\"hex\":\"");
  for (size_t i = 0; i < size; i++) printf("%02x", frame[i]);
  printf("\",\"writes\":[");
  for (size_t at = 0; at < size; at += burst) {
    size_t piece = size - at < burst ? size - at : burst;
    double characters = at + piece + (piece < burst ? TIMEOUT_CHARACTERS : 0);
    int64_t due_ns = from_ns + (int64_t)(characters * character_ns);
    if (stop.until_ns > 0 && stop.until_ns < due_ns) end_stop(&stop);
    sleep_until(due_ns);
    if (write(master, frame + at, piece) != (ssize_t)piece) die("write");
    double wall_ms = (double)ns_of(CLOCK_REALTIME) / 1e6;
    printf("%s{\"at\":%zu,\"wallMs\":%.3f,\"lateMs\":%.3f}", at == 0 ? "" : ",", at, wall_ms,
           (double)(now_ns() - due_ns) / 1e6);
    if (stop.until_ns > 0) stop.bytes += (int)piece;
    if (stop.stop_ns > 0 && at / burst + 1 == STOP_AFTER_BURSTS) begin_stop(&stop, piece);
  }
  if (stop.until_ns > 0) end_stop(&stop);
  printf("]");
  if (stop.stop_ns > 0)
    printf(",\"stop\":{\"fromMs\":%.3f,\"toMs\":%.3f,\"handedOver\":%s}", stop.from_wall_ms, stop.to_wall_ms,
           stop.handed_over ? "true" : "false");
  printf("}\n");
  /* Time on the wire is real: after a stop, or a delay of this program, the next frame begins later. */
  int64_t end_ns = from_ns + (int64_t)(size * character_ns), now = now_ns();
  return now > end_ns ? now : end_ns;
}

static void frames(int count, double character_ns, size_t burst, int pause_us, struct stop stop) {
  uint8_t frame[FRAME_BYTES];
  int64_t from_ns = now_ns();
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < FRAME_BYTES; at++) frame[at] = (uint8_t)rand();
    from_ns = put(frame, FRAME_BYTES, from_ns, character_ns, burst, stop) + (int64_t)pause_us * 1000;
  }
}

int main(void) {
  char line[256];
  int count, baud, pause_us, pid, stop_ms;
  size_t burst;
  struct sched_param priority = {.sched_priority = 10};
  sched_setscheduler(0, SCHED_FIFO, &priority);
  open_pty();
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "frames %d %d %zu %d", &count, &baud, &burst, &pause_us) == 4)
      frames(count, BITS_PER_CHARACTER * 1e9 / baud, burst, pause_us, (struct stop){0});
    else if (sscanf(line, "stops %d %d %zu %d %d %d", &count, &baud, &burst, &pause_us, &pid, &stop_ms) == 6)
      frames(count, BITS_PER_CHARACTER * 1e9 / baud, burst, pause_us,
             (struct stop){.pid = pid, .stop_ns = (int64_t)stop_ms * 1000000});
    else
      die("unknown command");
    printf("\n");
    fflush(stdout);
  }
  return 0;
}
