// The actor of the integration tests: a threaded HTTP server whose behaviour is chosen by the path. Its counter lives in memory.
//   /count            raises and answers the counter        /readyz          200
//   /echo             answers the request's body             /big?n=BYTES     answers that many bytes
//   /write?path=&data= writes a file                         /read?path=      reads one
//   /hold?path=       keeps a file open                      /space?path=     bytes of its file system
//   /fill?path=&mib=  appends so much, or what goes: bytes and the error
//   /remove?path=     removes a file                         /kept?do=        read, map, append: what KEEP names
//   /print?line=      a line on stdout                       /complain?line=  a line on stderr
//   /env?name=        an environment variable                /whoami          uid gid cwd hostname
//   /alloc?mib=       touches that much memory               /random          16 bytes of /dev/urandom in hex
//   /exit?code=       ends with that code                    /abort           ends by SIGABRT
//   /slow?ms=         answers after a while                  /time            seconds since 1970
// and what a hostile one does:
//   /flood            prints for ever                        /forks?n=        that many children that sleep
//   /raw?kind=        answers no HTTP (see raw())            /ignore          ignores SIGTERM
//   /stdout?do=       truncate, hole, seek, reopen           /deaf            closes the listening socket
// `workload do WHAT` is a command for exec:
//   echo TEXT  err TEXT   on stdout, stderr                  cat             stdin to stdout
//   env NAME  whoami      as the paths above                 exit CODE       ends so
//   binary                all 256 bytes                      flood           prints for ever
//   hang                  until it is killed                 fork N          that many children, all hang
//   leave                 ends, its child goes on with its stdout            exists PATH     0 or 1
//   count                 how many processes there are in /proc
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static unsigned long counter;
static int listening = -1;
static int kept = -1;
static char *kept_map;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int write_all(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    const ssize_t done = write(fd, at, size);
    if (done <= 0) {
      return -1;
    }
    at += done;
    size -= (size_t)done;
  }
  return 0;
}

static void reply(int fd, int status, const char *body, size_t size) {
  char head[256];
  const int length = snprintf(head, sizeof head,
                              "HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                              status, size);
  if (write_all(fd, head, (size_t)length) == 0) {
    write_all(fd, body, size);
  }
}

static void parameter(const char *target, const char *name, char *out, size_t limit) {
  out[0] = '\0';
  const char *at = strchr(target, '?');
  const size_t length = strlen(name);
  while (at != NULL) {
    ++at;
    if (strncmp(at, name, length) == 0 && at[length] == '=') {
      snprintf(out, limit, "%s", at + length + 1);
      char *end = strpbrk(out, "&");
      if (end != NULL) {
        *end = '\0';
      }
      return;
    }
    at = strchr(at, '&');
  }
}

static int is(const char *target, const char *path) {
  const size_t length = strlen(path);
  return strncmp(target, path, length) == 0 && (target[length] == '\0' || target[length] == '?');
}

static void echo(int fd, char *head, size_t used) {
  char *end = strstr(head, "\r\n\r\n") + 4;
  size_t have = used - (size_t)(end - head);
  const char *field = strcasestr(head, "\r\ncontent-length:");
  unsigned long long expected = field != NULL ? strtoull(field + 17, NULL, 10) : 0;
  char line[256];
  const int chunked = strcasestr(head, "\r\ntransfer-encoding: chunked") != NULL;
  if (chunked) {  // answered as a count: the tests compare bytes by their number and the daemon's by content elsewhere
    unsigned long long total = have;
    char buffer[65536];
    char last[5] = "";
    for (;;) {
      if (have >= 5) {
        memcpy(last, end + have - 5, 5);
      }
      if (memcmp(last, "0\r\n\r\n", 5) == 0) {
        break;
      }
      const ssize_t got = read(fd, buffer, sizeof buffer);
      if (got <= 0) {
        return;
      }
      total += (unsigned long long)got;
      if (got >= 5) {
        memcpy(last, buffer + got - 5, 5);
      }
      have = 0;
    }
    const int n = snprintf(line, sizeof line, "chunked %llu\n", total);
    reply(fd, 200, line, (size_t)n);
    return;
  }
  const int n = snprintf(line, sizeof line, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\nConnection: close\r\n\r\n", expected);
  if (write_all(fd, line, (size_t)n) != 0 || write_all(fd, end, have) != 0) {
    return;
  }
  expected -= have;
  char buffer[65536];
  while (expected > 0) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0 || write_all(fd, buffer, (size_t)got) != 0) {
      return;
    }
    expected -= (unsigned long long)got;
  }
}

static void big(int fd, unsigned long long bytes) {
  char buffer[65536];
  memset(buffer, 'x', sizeof buffer);
  const int n = snprintf(buffer, sizeof buffer, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\nConnection: close\r\n\r\n", bytes);
  if (write_all(fd, buffer, (size_t)n) != 0) {
    return;
  }
  memset(buffer, 'x', sizeof buffer);
  while (bytes > 0) {
    const size_t part = bytes < sizeof buffer ? (size_t)bytes : sizeof buffer;
    if (write_all(fd, buffer, part) != 0) {
      return;
    }
    bytes -= part;
  }
}

static void *flood(void *unused) {
  static char text[65536];
  (void)unused;
  memset(text, 'y', sizeof text);
  for (size_t i = 79; i < sizeof text; i += 80) {
    text[i] = '\n';
  }
  while (write_all(1, text, sizeof text) == 0) {
  }
  return NULL;
}

// Breaks the rules of HTTP in the way that `kind` names.
static void raw(int fd, const char *kind) {
  static const char *const texts[][2] = {
      {"garbage", "\x16\x03\x01 this is no HTTP\r\n\r\n"},
      {"half", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"},
      {"nothing", ""},
      {"smuggle", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"split", "HTTP/1.1 200 OK\r\nX-A: b\nX-C: d\r\rX-E: f\r\nContent-Length: 0\r\n\r\n"},
      {"status", "HTTP/1.1 99999 OK\r\nContent-Length: 0\r\n\r\n"},
      {"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc"},
      {"upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"},
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
    if (strcmp(kind, texts[i][0]) == 0) {
      write_all(fd, texts[i][1], strlen(texts[i][1]));
    }
  }
  if (strcmp(kind, "never") == 0) {
    pause();
  }
  char line[1024];
  memset(line, 'h', sizeof line);
  memcpy(line, "X-Header: ", 10);
  memcpy(line + sizeof line - 2, "\r\n", 2);
  const char *start = strcmp(kind, "continue") == 0 ? "HTTP/1.1 100 Continue\r\n\r\n" : "HTTP/1.1 200 OK\r\n";
  if (strcmp(kind, "headers") == 0 || strcmp(kind, "continue") == 0) {
    do {
      if (kind[0] == 'h' && write_all(fd, start, strlen(start)) == 0) {
        start = "";
      }
    } while (write_all(fd, kind[0] == 'h' ? line : start, kind[0] == 'h' ? sizeof line : strlen(start)) == 0);
  }
}

static void stdout_trick(const char *what) {
  if (strcmp(what, "truncate") == 0) {
    if (ftruncate(1, 0) != 0) {
      perror("ftruncate");
    }
    if (ftruncate(1, 1LL << 40) != 0) {
      perror("ftruncate");
    }
  } else if (strcmp(what, "hole") == 0) {
    if (fallocate(1, 0, 0, 1LL << 33) != 0) {
      perror("fallocate");
    }
  } else if (strcmp(what, "seek") == 0) {
    if (pwrite(1, "far away\n", 9, 1LL << 40) != 9) {
      perror("pwrite");
    }
  } else if (strcmp(what, "reopen") == 0) {
    const int again = open("/proc/self/fd/1", O_RDWR | O_TRUNC);
    if (again < 0 || write_all(again, "opened again\n", 13) != 0) {
      perror("open");
    }
  }
}

// Appends zero bytes until there are enough, or no more go: why not.
static const char *fill(const char *path, unsigned long long wanted, unsigned long long *written) {
  static const char block[64 << 10];
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) {
    return strerror(errno);
  }
  const char *error = "ok";
  while (*written < wanted) {
    const ssize_t put = write(fd, block, sizeof block);
    if (put < 0) {
      error = strerror(errno);
      break;
    }
    *written += (unsigned long long)put;
  }
  if (fsync(fd) != 0 && strcmp(error, "ok") == 0) {
    error = strerror(errno);
  }
  close(fd);
  return error;
}

static void handle(int fd) {
  static __thread char head[65536];
  size_t used = 0;
  for (;;) {
    const ssize_t got = read(fd, head + used, sizeof head - 1 - used);
    if (got <= 0) {
      return;
    }
    used += (size_t)got;
    head[used] = '\0';
    if (strstr(head, "\r\n\r\n") != NULL) {
      break;
    }
  }
  char target[4096] = "";
  sscanf(head, "%*s %4095s", target);
  char value[4096];
  char body[8192];
  int n = 0;
  if (is(target, "/count")) {
    pthread_mutex_lock(&lock);
    n = snprintf(body, sizeof body, "%lu\n", ++counter);
    pthread_mutex_unlock(&lock);
  } else if (is(target, "/readyz")) {
    n = snprintf(body, sizeof body, "ready\n");
  } else if (is(target, "/echo")) {
    echo(fd, head, used);
    return;
  } else if (is(target, "/big")) {
    parameter(target, "n", value, sizeof value);
    big(fd, strtoull(value, NULL, 10));
    return;
  } else if (is(target, "/target")) {
    n = snprintf(body, sizeof body, "%s\n", target);
  } else if (is(target, "/head")) {
    reply(fd, 200, head, used);
    return;
  } else if (is(target, "/print") || is(target, "/complain")) {
    parameter(target, "line", value, sizeof value);
    FILE *out = is(target, "/print") ? stdout : stderr;
    fprintf(out, "%s\n", value);
    fflush(out);
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/write")) {
    parameter(target, "path", value, sizeof value);
    FILE *file = fopen(value, "w");
    parameter(target, "data", value, sizeof value);
    if (file == NULL || fputs(value, file) < 0 || fclose(file) != 0) {
      reply(fd, 500, "write failed\n", 13);
      return;
    }
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/read")) {
    parameter(target, "path", value, sizeof value);
    FILE *file = fopen(value, "r");
    if (file == NULL) {
      reply(fd, 404, "no such file\n", 13);
      return;
    }
    n = (int)fread(body, 1, sizeof body, file);
    fclose(file);
  } else if (is(target, "/fill")) {
    parameter(target, "mib", value, sizeof value);
    const unsigned long long wanted = strtoull(value, NULL, 10) << 20;
    parameter(target, "path", value, sizeof value);
    unsigned long long written = 0;
    const char *error = fill(value, wanted, &written);
    n = snprintf(body, sizeof body, "%llu %s\n", written, error);
  } else if (is(target, "/space")) {
    parameter(target, "path", value, sizeof value);
    struct statvfs space = {0};
    statvfs(value, &space);
    n = snprintf(body, sizeof body, "%llu\n", (unsigned long long)space.f_frsize * space.f_blocks);
  } else if (is(target, "/remove")) {
    parameter(target, "path", value, sizeof value);
    n = snprintf(body, sizeof body, "%d\n", unlink(value));
  } else if (is(target, "/hold")) {
    parameter(target, "path", value, sizeof value);
    if (open(value, O_RDONLY) < 0) {
      reply(fd, 404, "no such file\n", 13);
      return;
    }
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/kept")) {
    // KEEP, open and mapped since the start: `read` from its begin, `map` through the mapping, `append` where it stands.
    parameter(target, "do", value, sizeof value);
    if (strcmp(value, "append") == 0) {
      n = (int)write(kept, "more", 4);
      n = snprintf(body, sizeof body, "%d\n", n);
    } else if (strcmp(value, "map") == 0) {
      n = snprintf(body, sizeof body, "%.7s", kept_map);
    } else {
      n = (int)pread(kept, body, sizeof body, 0);
    }
    n = n < 0 ? snprintf(body, sizeof body, "errno %d\n", errno) : n;
  } else if (is(target, "/env")) {
    parameter(target, "name", value, sizeof value);
    const char *text = getenv(value);
    n = snprintf(body, sizeof body, "%s\n", text != NULL ? text : "");
  } else if (is(target, "/whoami")) {
    char name[256] = "";
    char directory[1024] = "";
    gethostname(name, sizeof name - 1);
    if (getcwd(directory, sizeof directory) == NULL) {
      directory[0] = '\0';
    }
    n = snprintf(body, sizeof body, "%u %u %s %s\n", getuid(), getgid(), directory, name);
  } else if (is(target, "/alloc")) {
    parameter(target, "mib", value, sizeof value);
    const size_t size = strtoul(value, NULL, 10) << 20;
    volatile unsigned char *memory = malloc(size);  // volatile: an optimiser sees that nobody reads it
    for (size_t i = 0; memory != NULL && i < size; i += 8) {
      memory[i] = (unsigned char)(i * 2654435761U >> 13);
    }
    n = snprintf(body, sizeof body, "%s\n", memory != NULL ? "ok" : "no memory");
  } else if (is(target, "/random")) {
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
      reply(fd, 500, "no entropy\n", 11);
      return;
    }
    for (size_t i = 0; i < sizeof bytes; ++i) {
      n += snprintf(body + n, sizeof body - (size_t)n, "%02x", bytes[i]);
    }
  } else if (is(target, "/rand")) {
    n = snprintf(body, sizeof body, "%d\n", rand());  // a generator whose state is in memory
  } else if (is(target, "/time")) {
    n = snprintf(body, sizeof body, "%lld\n", (long long)time(NULL));
  } else if (is(target, "/slow")) {
    parameter(target, "ms", value, sizeof value);
    poll(NULL, 0, atoi(value));
    n = snprintf(body, sizeof body, "slow\n");
  } else if (is(target, "/exit")) {
    parameter(target, "code", value, sizeof value);
    _exit(atoi(value));
  } else if (is(target, "/flood")) {
    pthread_t thread;
    n = snprintf(body, sizeof body, "%d\n", pthread_create(&thread, NULL, flood, NULL));
  } else if (is(target, "/raw")) {
    parameter(target, "kind", value, sizeof value);
    raw(fd, value);
    return;
  } else if (is(target, "/forks")) {
    parameter(target, "n", value, sizeof value);
    int made = 0;
    for (int wanted = atoi(value); made < wanted; ++made) {
      const pid_t child = fork();
      if (child == 0) {
        for (;;) {
          pause();
        }
      }
      if (child < 0) {
        break;
      }
    }
    n = snprintf(body, sizeof body, "%d\n", made);
  } else if (is(target, "/ignore")) {
    signal(SIGTERM, SIG_IGN);
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/stdout")) {
    parameter(target, "do", value, sizeof value);
    stdout_trick(value);
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/deaf")) {
    close(listening);
    n = snprintf(body, sizeof body, "ok\n");
  } else if (is(target, "/abort")) {
    abort();
  } else {
    reply(fd, 404, "no such path\n", 13);
    return;
  }
  reply(fd, 200, body, (size_t)n);
}

static void *worker(void *argument) {
  const int fd = (int)(intptr_t)argument;
  handle(fd);
  shutdown(fd, SHUT_WR);
  char drain[4096];
  while (read(fd, drain, sizeof drain) > 0) {
  }
  close(fd);
  return NULL;
}

static void hang(void) {
  for (;;) {
    pause();
  }
}

static int count_processes(void) {
  int found = 0;
  DIR *directory = opendir("/proc");
  for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
    found += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
  }
  if (directory != NULL) {
    closedir(directory);
  }
  return found;
}

static int do_command(const char *what, const char *argument) {
  char buffer[65536];
  if (strcmp(what, "echo") == 0) {
    puts(argument);
  } else if (strcmp(what, "err") == 0) {
    fprintf(stderr, "%s\n", argument);
  } else if (strcmp(what, "cat") == 0) {
    for (ssize_t got; (got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
      write_all(STDOUT_FILENO, buffer, (size_t)got);
    }
  } else if (strcmp(what, "env") == 0) {
    const char *value = getenv(argument);
    puts(value != NULL ? value : "");
  } else if (strcmp(what, "whoami") == 0) {
    printf("%d %d %s\n", (int)getuid(), (int)getgid(), getcwd(buffer, sizeof buffer));
  } else if (strcmp(what, "exit") == 0) {
    return atoi(argument);
  } else if (strcmp(what, "binary") == 0) {
    for (int byte = 0; byte < 256; ++byte) {
      putchar(byte);
    }
  } else if (strcmp(what, "flood") == 0) {
    memset(buffer, 'x', sizeof buffer);
    while (write_all(STDOUT_FILENO, buffer, sizeof buffer) == 0) {
    }
  } else if (strcmp(what, "hang") == 0) {
    hang();
  } else if (strcmp(what, "fork") == 0) {
    for (int i = atoi(argument); i > 0; --i) {
      if (fork() == 0) {
        hang();
      }
    }
    hang();
  } else if (strcmp(what, "leave") == 0) {
    if (fork() == 0) {
      hang();
    }
    puts("left");
  } else if (strcmp(what, "exists") == 0) {
    return access(argument, F_OK) == 0 ? 0 : 1;
  } else if (strcmp(what, "count") == 0) {
    printf("%d\n", count_processes());
  } else {
    return 64;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "do") == 0) {
    return do_command(argv[2], argc > 3 ? argv[3] : "");
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // the first process of its container: orphans end up here
  if (argc > 1 && strcmp(argv[1], "fail") == 0) {
    fprintf(stderr, "refusing to start\n");
    return argc > 2 ? atoi(argv[2]) : 3;
  }
  const char *slow = getenv("START_MS");
  if (slow != NULL) {
    poll(NULL, 0, atoi(slow));  // a program that takes its time to start
  }
  const char *keep = getenv("KEEP");
  if (keep != NULL) {
    kept = open(keep, O_RDWR | O_CREAT, 0644);
    if (kept < 0 || write(kept, "golden\n", 7) != 7) {
      perror(keep);
      return 1;
    }
    kept_map = mmap(NULL, 7, PROT_READ | PROT_WRITE, MAP_SHARED, kept, 0);
  }
  const char *port = getenv("PORT");
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_port = htons((uint16_t)atoi(port != NULL ? port : "8080"));
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 128) != 0) {
    perror("listen");
    return 1;
  }
  listening = listener;
  printf("listening\n");
  fflush(stdout);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  for (;;) {
    const int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0 && errno == EBADF) {
      pause();  // deaf on purpose
    }
    pthread_t thread;
    if (client >= 0 && pthread_create(&thread, &attributes, worker, (void *)(intptr_t)client) != 0) {
      close(client);
    }
  }
}
