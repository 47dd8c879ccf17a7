/* Runs collective operations over MPI when told to, for `paceline bench collectives`. The same words on the same kind of socket as
 * bench/collectives/member.h, which describes them.
 *   mpi_collectives SOCKET */
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

static float expected(const char* operation, int ranks, long i) {
  if (strcmp(operation, "broadcast") == 0) return value(0, i);
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

static void fill(float* data, long count, int rank) {
  float period[kPeriod];
  for (int i = 0; i < kPeriod; ++i) period[i] = value(rank, i);
  for (long i = 0, k = 0; i < count; ++i, k = k + 1 == kPeriod ? 0 : k + 1) data[i] = period[k];
}

static long first_wrong(const float* data, long count, const char* operation, int ranks) {
  float period[kPeriod];
  for (int i = 0; i < kPeriod; ++i) period[i] = expected(operation, ranks, i);
  for (long i = 0, k = 0; i < count; ++i, k = k + 1 == kPeriod ? 0 : k + 1)
    if (data[i] != period[k]) return i;
  return -1;
}

static int operate(const char* operation, float* data, int count, int rank) {
  if (strcmp(operation, "broadcast") == 0) return MPI_Bcast(data, count, MPI_FLOAT, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "reduce") == 0)
    return MPI_Reduce(rank == 0 ? MPI_IN_PLACE : data, data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  if (strcmp(operation, "allreduce") == 0)
    return MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
  return 0;
}

static void answer(FILE* driver, const char* operation, long count, int repetitions, int warm_up) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* data = malloc((size_t)(count > 0 ? count : 1) * sizeof(float));
  double* seconds = malloc((size_t)repetitions * sizeof(double));
  if (data == NULL || seconds == NULL) {
    fprintf(driver, "{\"error\": \"no memory for %ld elements\"}\n", count);
    return;
  }
  for (int i = -warm_up; i < repetitions; ++i) {
    fill(data, count, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    if (!operate(operation, data, (int)count, rank)) {
      fprintf(driver, "{\"error\": \"%s failed\"}\n", operation);
      return;
    }
    if (i >= 0) seconds[i] = now() - begin;
  }
  const int has_result = rank == 0 || strcmp(operation, "reduce") != 0;
  const long wrong = has_result ? first_wrong(data, count, operation, ranks) : -1;
  if (wrong >= 0) {
    fprintf(driver, "{\"error\": \"element %ld is %g\"}\n", wrong, (double)data[wrong]);
  } else {
    fprintf(driver, "{\"seconds\": [");
    for (int i = 0; i < repetitions; ++i) fprintf(driver, "%s%.9f", i > 0 ? ", " : "", seconds[i]);
    fprintf(driver, "]}\n");
  }
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
  while (fgets(line, sizeof line, orders) != NULL) {
    if (sscanf(line, "run %31s %31s %ld %d %d", operation, algorithm, &count, &repetitions, &warm_up) != 5) break;
    answer(driver, operation, count, repetitions, warm_up);
    fflush(driver);
  }
  MPI_Finalize();
  return 0;
}
