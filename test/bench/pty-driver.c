/*
 * The device behind the line, for the benchmark: a pseudo-terminal of its own, whose slave is the port. Compiled when the
 * benchmark runs (cc -O2). Prints the slave's path, then takes commands from standard input, one a line, and answers each
 * with one line of JSON. Node is too slow for this: pacing 64-byte writes at 12 Mbaud means 18,750 of them a second.
 *
 *   flood FILE BYTES SIZE           writes BYTES, FILE's content over and over, SIZE a write, as fast as they are taken
 *   pace FILE BYTES SIZE RATE       the same at RATE bytes a second, on an absolute schedule
 *   stamps COUNT SIZE RATE          records of SIZE bytes: index and CLOCK_MONOTONIC nanoseconds (u64 LE each), then zeros
 *   records FILE COUNT SIZE WINDOW FIFO
 *                                   COUNT records of SIZE, each written once the reader has taken the one before; at most
 *                                   WINDOW bytes ahead of what FIFO acknowledges (one byte there for ACK_BYTES received)
 *   echo                            sends back whatever the port's user writes, until the next command
 */
#include "../pty.h"

#define ACK_BYTES 4096
/* Short enough not to be the limit, long enough to leave the core to the others. */
#define LOOK_NS 5000
#define HANDOVER_NS 300000
#define MAX_FILE (8 << 20)
#define MAX_RECORD 4096

static uint8_t content[MAX_FILE];
static size_t content_bytes;

static void write_all(const uint8_t *from, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(master, from, bytes);
    if (n < 0 && errno != EINTR) die("write");
    if (n > 0) from += n, bytes -= (size_t)n;
  }
}

static void load(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) die(path);
  content_bytes = fread(content, 1, MAX_FILE, file);
  fclose(file);
  if (content_bytes == 0) die("empty file");
}

/* Writes `bytes` bytes of the content beginning at `*at`, and moves on. */
static void write_content(size_t *at, size_t bytes) {
  while (bytes > 0) {
    size_t piece = content_bytes - *at < bytes ? content_bytes - *at : bytes;
    write_all(content + *at, piece);
    *at = (*at + piece) % content_bytes;
    bytes -= piece;
  }
}

static void report(int64_t bytes, int64_t from_ns, int64_t worst_late_ns) {
  int64_t to = now_ns();
  printf("{\"bytes\":%lld,\"startNs\":%lld,\"endNs\":%lld,\"worstLateMs\":%.3f}\n", (long long)bytes, (long long)from_ns,
         (long long)to, (double)worst_late_ns / 1e6);
}

static void put(int64_t bytes, size_t size, double rate, int stamps) {
  uint8_t record[MAX_RECORD] = {0};
  size_t at = 0;
  int64_t from = now_ns(), worst = 0;
  for (int64_t done = 0, i = 0; done < bytes; i++) {
    size_t piece = bytes - done < (int64_t)size ? (size_t)(bytes - done) : size;
    if (rate > 0) {
      int64_t due = from + (int64_t)((double)done * 1e9 / rate);
      if (now_ns() < due) sleep_until(due);
      int64_t late = now_ns() - due;
      if (late > worst) worst = late;
    }
    if (stamps) {
      int64_t stamp = now_ns();
      memcpy(record, &i, 8);
      memcpy(record + 8, &stamp, 8);
      write_all(record, piece);
    } else {
      write_content(&at, piece);
    }
    done += (int64_t)piece;
  }
  report(bytes, from, worst);
}

static void records(int64_t count, size_t size, int64_t window, const char *fifo) {
  uint8_t acks[4096];
  int64_t acknowledged = 0, from = now_ns();
  size_t at = 0;
  int in = open(fifo, O_RDONLY | O_NONBLOCK);
  if (in < 0) die(fifo);
  for (int64_t i = 0; i < count; i++) {
    for (;;) {
      ssize_t n = read(in, acks, sizeof acks);
      if (n > 0) acknowledged += n * ACK_BYTES;
      if (waiting_bytes() == 0 && i * (int64_t)size - acknowledged < window) break;
      sleep_until(now_ns() + LOOK_NS);
    }
    write_content(&at, size);
    /* The kernel hands it over a moment later: until then it does not count as waiting. */
    int64_t limit = now_ns() + HANDOVER_NS;
    while (waiting_bytes() == 0 && now_ns() < limit) sched_yield();
  }
  close(in);
  report(count * (int64_t)size, from, 0);
}

static void echo(void) {
  uint8_t bytes[65536];
  int64_t total = 0, from = now_ns();
  struct pollfd fds[2] = {{master, POLLIN, 0}, {0, POLLIN, 0}};
  printf("{}\n");
  while (poll(fds, 2, -1) >= 0 && !(fds[1].revents & (POLLIN | POLLHUP))) {
    if (!(fds[0].revents & POLLIN)) continue;
    ssize_t n = read(master, bytes, sizeof bytes);
    if (n > 0) write_all(bytes, (size_t)n), total += n;
  }
  report(total, from, 0);
}

int main(void) {
  char line[4096], path[1024], fifo[1024];
  long long bytes, window;
  unsigned size;
  double rate;
  setvbuf(stdin, NULL, _IONBF, 0); /* poll() must see every command that is waiting */
  setvbuf(stdout, NULL, _IOLBF, 0);
  open_pty();
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "flood %1023s %lld %u", path, &bytes, &size) == 3) {
      load(path);
      put(bytes, size, 0, 0);
    } else if (sscanf(line, "pace %1023s %lld %u %lf", path, &bytes, &size, &rate) == 4) {
      load(path);
      put(bytes, size, rate, 0);
    } else if (sscanf(line, "stamps %lld %u %lf", &bytes, &size, &rate) == 3 && size >= 16 && size <= MAX_RECORD) {
      put(bytes * size, size, rate, 1);
    } else if (sscanf(line, "records %1023s %lld %u %lld %1023s", path, &bytes, &size, &window, fifo) == 5) {
      load(path);
      records(bytes, size, window, fifo);
    } else if (strncmp(line, "echo", 4) == 0) {
      echo();
    } else {
      printf("{\"error\":\"what?\"}\n");
    }
    fflush(stdout);
  }
  return 0;
}
