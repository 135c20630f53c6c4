/* Runs an exported policy without Python, as a serving process does.

   run_export MODEL INPUT_OP ACTION_OP:n Q_OP:n TYPE SHAPE STATES BATCHES ROUNDS OUTPUT

   TYPE is TensorFlow's number of the input's type, SHAPE that of one state (84,84,4), STATES a file
   of them, raw. Decides on all of them in batches of each size in BATCHES (1,32), in turns, ROUNDS
   times; writes to OUTPUT, raw, the actions (int64 [n]) and Q-values (float [n, A]) of the last turn,
   and prints for each call the size asked for and the milliseconds, one call in a line. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"

static void fail(const char *what, const char *why) {
  fprintf(stderr, "run_export: %s: %s\n", what, why);
  exit(1);
}

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static TF_Output output_of(TF_Graph *graph, const char *name) {
  char op[512];
  snprintf(op, sizeof op, "%s", name);
  char *colon = strrchr(op, ':');
  int number = colon ? atoi(colon + 1) : 0;
  if (colon) *colon = 0;
  TF_Output output = {TF_GraphOperationByName(graph, op), number};
  if (!output.oper) fail("no such operation in the graph", name);
  return output;
}

static char *read_all(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) fail("cannot read", path);
  fseek(file, 0, SEEK_END);
  *size = ftell(file);
  rewind(file);
  char *content = malloc(*size + 1);
  if (fread(content, 1, *size, file) != *size) fail("cannot read", path);
  fclose(file);
  return content;
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
  if (argc != 11) fail("arguments", "see the head of run_export.c");
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, "loading the model");
  TF_Output input = output_of(graph, argv[2]);
  TF_Output outputs[2] = {output_of(graph, argv[3]), output_of(graph, argv[4])};
  TF_DataType type = atoi(argv[5]);

  int64_t dims[8];
  int rank = 1;
  size_t state_size = TF_DataTypeSize(type);
  for (char *dim = strtok(argv[6], ","); dim && rank < 8; dim = strtok(NULL, ","))
    state_size *= dims[rank++] = atoll(dim);
  size_t size;
  char *states = read_all(argv[7], &size);
  size_t count = size / state_size, batches[8];
  int sizes = 0;
  for (char *batch = strtok(argv[8], ","); batch && sizes < 8; batch = strtok(NULL, ","))
    batches[sizes++] = atoll(batch);

  int64_t *actions = malloc(count * sizeof *actions);
  float *q = NULL;
  size_t num_actions = 0;
  for (int turn = 0; turn < sizes * atoi(argv[9]); ++turn) {
    size_t batch = batches[turn % sizes];
    for (size_t first = 0; first < count; first += batch) {
      size_t n = count - first < batch ? count - first : batch;
      double started = now_ms();
      dims[0] = n;
      TF_Tensor *given = TF_AllocateTensor(type, dims, rank, n * state_size);
      memcpy(TF_TensorData(given), states + first * state_size, n * state_size);
      TF_Tensor *answers[2] = {NULL, NULL};
      TF_SessionRun(session, NULL, &input, &given, 1, outputs, answers, 2, NULL, 0, NULL, status);
      printf("%zu %.4f\n", batch, now_ms() - started);
      check(status, "deciding");
      num_actions = TF_Dim(answers[1], 1);
      if (!q) q = malloc(count * num_actions * sizeof *q);
      memcpy(actions + first, TF_TensorData(answers[0]), n * sizeof *actions);
      memcpy(q + first * num_actions, TF_TensorData(answers[1]), n * num_actions * sizeof *q);
      TF_DeleteTensor(given);
      TF_DeleteTensor(answers[0]);
      TF_DeleteTensor(answers[1]);
    }
  }
  FILE *file = fopen(argv[10], "wb");
  if (!file) fail("cannot write", argv[10]);
  fwrite(actions, sizeof *actions, count, file);
  fwrite(q, sizeof *q, count * num_actions, file);
  fclose(file);
  TF_CloseSession(session, status);
  return 0;
}
