/* librdkafka's own mock cluster as a process, for machines without Java: prints its addresses, then obeys its input.
   down N | up N | rtt N MS | err APIKEY CODE COUNT | topic NAME PARTITIONS | quit; each is answered by "ok RESULT". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rdkafka.h"
#include "rdkafka_mock.h"

int main(int argc, char **argv) {
  char error[512], line[256], name[200];
  int number, value, count;
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "log_level", "0", error, sizeof error);
  rd_kafka_t *handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
  rd_kafka_mock_cluster_t *cluster = handle ? rd_kafka_mock_cluster_new(handle, argc > 1 ? atoi(argv[1]) : 1) : NULL;
  if (!cluster) return 1;
  printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int result = -1;
    if (sscanf(line, "down %d", &number) == 1) result = rd_kafka_mock_broker_set_down(cluster, number);
    else if (sscanf(line, "up %d", &number) == 1) result = rd_kafka_mock_broker_set_up(cluster, number);
    else if (sscanf(line, "rtt %d %d", &number, &value) == 2) result = rd_kafka_mock_broker_set_rtt(cluster, number, value);
    else if (sscanf(line, "err %d %d %d", &number, &value, &count) == 3) {
      while (count-- > 0) rd_kafka_mock_push_request_errors(cluster, number, 1, value);
      result = 0;
    } else if (sscanf(line, "topic %199s %d", name, &number) == 2) result = rd_kafka_mock_topic_create(cluster, name, number, 1);
    else if (!strncmp(line, "quit", 4)) break;
    printf("ok %d\n", result);
    fflush(stdout);
  }
  rd_kafka_mock_cluster_destroy(cluster);
  rd_kafka_destroy(handle);
  return 0;
}
