/* Uses the library from C11, on a machine that may have neither a driver nor NVRTC. */
#include "runtime/api/tilewright.h"

#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                \
    }                                                                          \
  } while (0)

int main(void) {
  EXPECT(strncmp(tw_version(), "0.1", 3) == 0);

  tw_context_options options = {sizeof options, "", 0, 0};
  tw_context* context = NULL;
  tw_error* error = NULL;
  EXPECT(tw_context_create(&options, &context, &error) == TW_OK);
  EXPECT(error == NULL);

  static const char good[] =
      "{\"name\": \"twice\", \"inputs\": {\"x\": {\"dtype\": \"f32\", \"shape\": [4]}},"
      " \"ops\": [{\"op\": \"map\", \"in\": [\"x\"], \"out\": \"y\", \"expr\": \"x + x\"}], \"outputs\": [\"y\"]}";
  tw_graph* graph = NULL;
  EXPECT(tw_graph_from_json(good, strlen(good), &graph, &error) == TW_OK);
  EXPECT(strlen(tw_graph_signature(graph)) == 32);
  tw_graph_destroy(graph);

  graph = NULL;
  EXPECT(tw_graph_from_json("{", 1, &graph, &error) == TW_INVALID_ARGUMENT);
  EXPECT(graph == NULL && error != NULL);
  EXPECT(tw_error_status(error) == TW_INVALID_ARGUMENT);
  EXPECT(strlen(tw_error_message(error)) > 0);
  tw_error_destroy(error);

  tw_context_destroy(context);
  return 0;
}
