#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ate/logs/logs.hpp"
#include "support/catch.hpp"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

using namespace ate;
using namespace ate::test;
using ate::test::Contains;
using logs::ReadOptions;

namespace {

void append(int fd, const std::string& text) {
  REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

logs::StdioFiles open(const TempDir& dir) {
  return logs::open_stdio(dir.file("logs"), "main").value();
}

/// start, then read until nothing comes; all bytes. `dropped`: whether any chunk said so.
Result<std::string> collect(const TempDir& dir, ReadOptions options, bool* dropped,
                            std::size_t limit) {
  return run_coro([&](async::Context& context) -> async::Task<Result<std::string>> {
    Result<logs::Range> range = co_await logs::start(context, dir.file("logs"), options);
    if (!range) {
      co_return fail(range.error());
    }
    auto cursor = std::make_shared<logs::Cursor>(range->begin);
    std::string all;
    for (;;) {
      Result<logs::Chunk> chunk =
          co_await logs::read(context, dir.file("logs"), options, cursor, limit);
      if (!chunk) {
        co_return fail(chunk.error());
      }
      if (chunk->bytes.empty()) {
        co_return all;
      }
      all += chunk->bytes;
      if (dropped != nullptr) {
        *dropped = *dropped || chunk->dropped;
      }
    }
  });
}

std::string text(const TempDir& dir, const ReadOptions& options) {
  return collect(dir, options, nullptr, 65536).value();
}

ReadOptions stdout_tail(std::int64_t lines) {
  ReadOptions options;
  options.stream = "stdout";
  options.tail_lines = lines;
  return options;
}

std::string numbered(int from, int to) {
  std::string lines;
  for (int i = from; i < to; ++i) {
    lines += "line " + std::to_string(i) + "\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("logs: files are private, appended to and survive being opened again") {
  const TempDir dir;
  append(open(dir).out.get(), "one\n");
  const logs::StdioFiles again = open(dir);
  append(again.out.get(), "two\n");
  CHECK(read_file(dir.file("logs/main.stdout")) == "one\ntwo\n");
  struct stat info{};
  REQUIRE(::stat(dir.file("logs/main.stderr").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0600);
  REQUIRE(::stat(dir.file("logs").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0700);
  CHECK((::fcntl(again.out.get(), F_GETFL) & O_APPEND) != 0);
  CHECK((::fcntl(again.out.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("logs: names and files that could lead elsewhere are refused") {
  const TempDir dir;
  for (const char* name : {"", "..", "a/b", "A", "main.stdout"}) {
    CHECK_FALSE(logs::open_stdio(dir.file("logs"), name).has_value());
  }
  std::filesystem::create_directory(dir.file("logs"));
  std::filesystem::create_symlink("/etc/passwd", dir.file("logs/main.stdout"));
  CHECK_FALSE(logs::open_stdio(dir.file("logs"), "main").has_value());
  ReadOptions options;
  CHECK_FALSE(collect(dir, options, nullptr, 65536).has_value());
  options.container = "../x";
  CHECK(collect(dir, options, nullptr, 65536).error().code() == Errc::InvalidValue);
}

TEST_CASE("logs: both streams are read, each whole lines only, and on from the cursor") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), "out 1\nout 2\nhalf");
  append(files.err.get(), "err 1\n");
  std::vector<std::string> chunks;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto cursor = std::make_shared<logs::Cursor>();
    for (const char* more : {"", " done\n", ""}) {
      append(files.out.get(), more);
      auto chunk = co_await logs::read(context, dir.file("logs"), ReadOptions{}, cursor, 65536);
      chunks.push_back(chunk.value().bytes);
    }
  });
  CHECK(chunks == std::vector<std::string>{"out 1\nout 2\nerr 1\n", "half done\n", ""});
  ReadOptions options;
  options.unfinished = true;
  append(files.err.get(), "no newline");
  CHECK(text(dir, options) == "out 1\nout 2\nhalf done\nerr 1\nno newline\n");
  options.stream = "stderr";
  CHECK(text(dir, options) == "err 1\nno newline\n");
}

TEST_CASE("logs: the last lines, from a file of any length") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), numbered(0, 50'000));
  CHECK(text(dir, stdout_tail(3)) == numbered(49'997, 50'000));
  CHECK(text(dir, stdout_tail(20'000)) == numbered(30'000, 50'000));
  CHECK(text(dir, stdout_tail(0)).empty());
  CHECK(text(dir, stdout_tail(50'000)) == numbered(0, 50'000));
  CHECK(text(dir, stdout_tail(60'000)) == numbered(0, 50'000));
  CHECK(text(dir, stdout_tail(-1)) == numbered(0, 50'000));
  append(files.out.get(), "unfinished");
  ReadOptions options = stdout_tail(2);
  CHECK(text(dir, options) == numbered(49'998, 50'000));
  options.unfinished = true;
  CHECK(text(dir, options) == numbered(49'999, 50'000) + "unfinished\n");
  options.tail_lines = 0;
  CHECK(text(dir, options).empty());
}

TEST_CASE("logs: small chunks lose nothing and starve no stream") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), numbered(0, 20'000));
  append(files.err.get(), "err\n");
  ReadOptions options;
  options.stream = "stdout";
  CHECK(collect(dir, options, nullptr, 100).value() == numbered(0, 20'000));
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto cursor = std::make_shared<logs::Cursor>();
    auto first = co_await logs::read(context, dir.file("logs"), ReadOptions{}, cursor, 100);
    CHECK_THAT(first.value().bytes, Contains("err\n"));
  });
}

TEST_CASE("logs: a reader comes to the end that was there when it began, however much is written") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), numbered(0, 5'000) + "unfinished");
  std::string all;
  std::string truncated = "unset";
  run_coro([&](async::Context& context) -> async::Task<void> {
    ReadOptions options = stdout_tail(4'000);
    options.unfinished = true;
    auto range = co_await logs::start(context, dir.file("logs"), options);
    options.until = range.value().end;
    auto cursor = std::make_shared<logs::Cursor>(range.value().begin);
    for (int round = 0; round < 100; ++round) {
      append(files.out.get(), numbered(0, 5'000));  // more than a chunk
      auto chunk = co_await logs::read(context, dir.file("logs"), options, cursor, 32768);
      if (chunk.value().bytes.empty()) {
        break;
      }
      all += chunk.value().bytes;
    }
    // Truncated and written again, over and over: no way to hold a reader up either.
    options.until = logs::Cursor{.out = 1 << 30, .err = 0};
    std::filesystem::resize_file(dir.file("logs/main.stdout"), 0);
    append(files.out.get(), "again\n");
    auto chunk = co_await logs::read(context, dir.file("logs"), options, cursor, 32768);
    truncated = chunk.value().bytes;
  });
  CHECK(all == numbered(1'001, 5'000) + "unfinished\n");
  CHECK(truncated.empty());
}

TEST_CASE("logs: a line of more than 16 KiB is cut, one without end is not waited for") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), std::string(40'000, 'a') + "\nb\n" + std::string(20'000, 'c'));
  const std::string a(16384, 'a');
  const std::string expected = a + "\n" + a + "\n" + std::string(40'000 - 32768, 'a') + "\nb\n" +
                               std::string(16384, 'c') + "\n";
  ReadOptions options;
  options.stream = "stdout";
  CHECK(text(dir, options) == expected);
  options.unfinished = true;
  CHECK(text(dir, options) == expected + std::string(20'000 - 16384, 'c') + "\n");
}

TEST_CASE("logs: a bounded file keeps its newest bytes; what is gone is told and skipped") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  const std::string path = dir.file("logs/main.stdout");
  append(files.out.get(), numbered(0, 50'000));
  const std::int64_t size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  CHECK(logs::bound_file(path, size).value() == 0);
  const std::int64_t freed = logs::bound_file(path, 100'000).value();
  CHECK(freed > size - 110'000);
  CHECK(logs::bound_file(path, 100'000).value() == 0);
  CHECK(static_cast<std::int64_t>(std::filesystem::file_size(path)) == size);
  append(files.out.get(), "after\n");

  bool dropped = false;
  const std::string kept = collect(dir, stdout_tail(-1), &dropped, 65536).value();
  CHECK(dropped);
  CHECK(kept.size() >= 95'000);
  CHECK(kept.size() <= 106'000);
  CHECK(kept.starts_with("line "));
  CHECK(kept.ends_with("line 49999\nafter\n"));
  CHECK(kept.find('\0') == std::string::npos);

  dropped = false;
  CHECK(collect(dir, stdout_tail(2), &dropped, 65536).value() == "line 49999\nafter\n");
  CHECK_FALSE(dropped);
  CHECK(collect(dir, stdout_tail(50'000), &dropped, 65536).value() == kept);
  CHECK(dropped);
}

TEST_CASE("logs: a reader that was overtaken by the bound goes on at the next whole line") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  std::string first;
  logs::Chunk second;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto cursor = std::make_shared<logs::Cursor>();
    const ReadOptions options = stdout_tail(-1);
    append(files.out.get(), "early\n");
    auto one = co_await logs::read(context, dir.file("logs"), options, cursor, 65536);
    first = one.value().bytes;
    append(files.out.get(), numbered(0, 30'000));
    static_cast<void>(logs::bound_file(dir.file("logs/main.stdout"), 8192).value());
    auto two = co_await logs::read(context, dir.file("logs"), options, cursor, 65536);
    second = two.value();
  });
  CHECK(first == "early\n");
  CHECK(second.dropped);
  CHECK(second.bytes.starts_with("line "));
  CHECK(second.bytes.ends_with("line 29999\n"));
}

TEST_CASE("logs: a file that somebody truncated is read from its beginning") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  logs::Chunk after;
  run_coro([&](async::Context& context) -> async::Task<void> {
    auto cursor = std::make_shared<logs::Cursor>();
    append(files.out.get(), numbered(0, 10));
    auto one = co_await logs::read(context, dir.file("logs"), ReadOptions{}, cursor, 65536);
    CHECK(one.has_value());
    std::filesystem::resize_file(dir.file("logs/main.stdout"), 0);
    append(files.out.get(), "new\n");
    auto two = co_await logs::read(context, dir.file("logs"), ReadOptions{}, cursor, 65536);
    after = two.value();
  });
  CHECK(after.dropped);
  CHECK(after.bytes == "new\n");
}

TEST_CASE("logs: no output and no such container are NotFound, several need a name") {
  const TempDir dir;
  ReadOptions options;
  CHECK(collect(dir, options, nullptr, 65536).error().code() == Errc::NotFound);
  std::filesystem::create_directory(dir.file("logs"));
  CHECK(collect(dir, options, nullptr, 65536).error().code() == Errc::NotFound);
  const logs::StdioFiles main = open(dir);
  options.container = "other";
  const Result<std::string> missing = collect(dir, options, nullptr, 65536);
  CHECK(missing.error().code() == Errc::NotFound);
  CHECK_THAT(missing.error().message(), Contains("only of: main"));
  static_cast<void>(logs::open_stdio(dir.file("logs"), "other").value());
  options.container.clear();
  const Result<std::string> several = collect(dir, options, nullptr, 65536);
  CHECK(several.error().code() == Errc::InvalidValue);
  CHECK_THAT(several.error().message(), Contains("main, other"));
  CHECK(logs::bound_file(dir.file("logs/none.stdout"), 1).error().code() == Errc::NotFound);
}

TEST_CASE("logs: space that an actor only allocated in its output goes too") {
  const TempDir dir;
  const logs::StdioFiles files = open(dir);
  append(files.out.get(), "before\n");
  if (::fallocate(files.out.get(), 0, 0, 64LL << 20) != 0) {
    return;  // this file system has no such thing
  }
  append(files.out.get(), "after\n");
  CHECK(logs::bound_directory(dir.file("logs"), 1 << 20).value() > 60LL << 20);
  CHECK(logs::bound_directory(dir.file("logs"), 1 << 20).value() == 0);
  CHECK(logs::bound_directory(dir.file("none"), 1 << 20).value() == 0);
}
