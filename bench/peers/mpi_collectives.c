/* Runs collective operations over MPI when told to, for `paceline bench collectives`. The same words on the same kind of socket as
 * bench/collectives/member.h, which describes them.
 *   mpi_collectives SOCKET */
#define _DEFAULT_SOURCE /* usleep */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { kPeriod = 13 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* See pattern.h. */
static float value(long rank, long i) { return (float)((7 * rank + i) % kPeriod); }

/* `owner` of the part that element i of the message belongs to; only an allgather asks. */
static float expected(const char* operation, int ranks, int owner, long i) {
  if (strcmp(operation, "broadcast") == 0) return value(0, i);
  if (strcmp(operation, "allgather") == 0) return value(owner, i);
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

static void fill(float* data, long count, int rank) {
  float period[kPeriod];
  for (int i = 0; i < kPeriod; ++i) period[i] = value(rank, i);
  for (long i = 0, k = 0; i < count; ++i, k = k + 1 == kPeriod ? 0 : k + 1) data[i] = period[k];
}

/* `data` begins at element `begin` of the message. */
static long first_wrong(const float* data, long begin, long count, const char* operation, int ranks, int owner) {
  float period[kPeriod];
  for (int i = 0; i < kPeriod; ++i) period[i] = expected(operation, ranks, owner, i);
  for (long i = 0, k = begin % kPeriod; i < count; ++i, k = k + 1 == kPeriod ? 0 : k + 1)
    if (data[i] != period[k]) return begin + i;
  return -1;
}

/* The parts of all ranks: the first ones are one element longer where they cannot be equal (collectives::part_of). */
struct parts {
  int* counts;
  int* firsts;
};

static struct parts parts_of(long count, int ranks) {
  struct parts parts = {malloc((size_t)ranks * sizeof(int)), malloc((size_t)ranks * sizeof(int))};
  if (parts.counts == NULL || parts.firsts == NULL) abort();
  long first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.counts[rank] = (int)(count / ranks + (rank < count % ranks ? 1 : 0));
    parts.firsts[rank] = (int)first;
    first += parts.counts[rank];
  }
  return parts;
}

static int operate(const char* operation, float* data, int count, int rank, const struct parts* parts) {
  if (strcmp(operation, "broadcast") == 0) return MPI_Bcast(data, count, MPI_FLOAT, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "reduce") == 0)
    return MPI_Reduce(rank == 0 ? MPI_IN_PLACE : data, data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "allreduce") == 0)
    return MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "reduce-scatter") == 0)
    return MPI_Reduce_scatter(MPI_IN_PLACE, data, parts->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "allgather") == 0)
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, data, parts->counts, parts->firsts, MPI_FLOAT, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "barrier") == 0) return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS;
  return 0;
}

/* The first element of this rank's view of the result that is wrong, or -1. A reduce-scatter in place leaves the part in front. */
static long check(const char* operation, const float* data, long count, int rank, int ranks, const struct parts* parts) {
  if (strcmp(operation, "barrier") == 0 || (strcmp(operation, "reduce") == 0 && rank != 0)) return -1;
  if (strcmp(operation, "reduce-scatter") == 0)
    return first_wrong(data, parts->firsts[rank], parts->counts[rank], operation, ranks, rank);
  if (strcmp(operation, "allgather") != 0) return first_wrong(data, 0, count, operation, ranks, 0);
  for (int owner = 0; owner < ranks; ++owner) {
    const long wrong =
        first_wrong(data + parts->firsts[owner], parts->firsts[owner], parts->counts[owner], operation, ranks, owner);
    if (wrong >= 0) return wrong;
  }
  return -1;
}

static void answer(FILE* driver, const char* operation, long count, int repetitions, int warm_up, unsigned rest) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* data = malloc((size_t)(count > 0 ? count : 1) * sizeof(float));
  double* seconds = malloc((size_t)repetitions * sizeof(double));
  if (data == NULL || seconds == NULL) {
    fprintf(driver, "{\"error\": \"no memory for %ld elements\"}\n", count);
    return;
  }
  const struct parts parts = parts_of(count, ranks);
  for (int i = -warm_up; i < repetitions; ++i) {
    fill(data, count, rank);
    if (rest > 0) usleep(rest);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    if (!operate(operation, data, (int)count, rank, &parts)) {
      fprintf(driver, "{\"error\": \"%s failed\"}\n", operation);
      return;
    }
    if (i >= 0) seconds[i] = now() - begin;
  }
  const long wrong = check(operation, data, count, rank, ranks, &parts);
  if (wrong >= 0) {
    fprintf(driver, "{\"error\": \"element %ld is wrong\"}\n", wrong);
  } else {
    fprintf(driver, "{\"seconds\": [");
    for (int i = 0; i < repetitions; ++i) fprintf(driver, "%s%.9f", i > 0 ? ", " : "", seconds[i]);
    fprintf(driver, "]}\n");
  }
  free(parts.counts);
  free(parts.firsts);
  free(data);
  free(seconds);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: mpi_collectives SOCKET\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connection < 0 || connect(connection, (struct sockaddr*)&address, sizeof address) != 0) {
    perror(argv[1]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  FILE* orders = fdopen(connection, "r");
  FILE* driver = fdopen(dup(connection), "w");
  fprintf(driver, "{\"rank\": %d}\n", rank);
  fflush(driver);
  char line[256], operation[32], algorithm[32];
  long count = 0;
  int repetitions = 0, warm_up = 0;
  unsigned rest = 0;
  while (fgets(line, sizeof line, orders) != NULL) {
    if (sscanf(line, "run %31s %31s %ld %d %d %u", operation, algorithm, &count, &repetitions, &warm_up, &rest) != 6) break;
    answer(driver, operation, count, repetitions, warm_up, rest);
    fflush(driver);
  }
  MPI_Finalize();
  return 0;
}
