// The quickstart's workload: an HTTP server of one file whose counter lives in this process's memory and nowhere else.
// GET /readyz answers 200; every other GET counts and answers the number. If suspend and resume lost the memory, it would
// start again at 1.
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve(int client, unsigned long *counter) {
  char request[4096];
  size_t used = 0;
  while (used < sizeof request - 1) {
    const ssize_t got = read(client, request + used, sizeof request - 1 - used);
    if (got <= 0) {
      return;
    }
    used += (size_t)got;
    request[used] = '\0';
    if (strstr(request, "\r\n\r\n") != NULL) {
      break;
    }
  }
  char body[64];
  if (strncmp(request, "GET /readyz", 11) == 0) {
    snprintf(body, sizeof body, "ready\n");
  } else {
    snprintf(body, sizeof body, "%lu\n", ++*counter);
    printf("count is now %lu\n", *counter);
    fflush(stdout);
  }
  char reply[256];
  const int size = snprintf(reply, sizeof reply,
                            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                            "Connection: close\r\n\r\n%s",
                            strlen(body), body);
  if (write(client, reply, (size_t)size) != size) {
    perror("write");
  }
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const char *port = getenv("PORT");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
  address.sin_port = htons((unsigned short)atoi(port != NULL ? port : "8080"));
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0) {
    perror("listen");
    return 1;
  }
  printf("listening\n");
  fflush(stdout);
  unsigned long counter = 0;
  for (;;) {
    const int client = accept(listener, NULL, NULL);
    if (client >= 0) {
      serve(client, &counter);
      close(client);
    }
  }
}
