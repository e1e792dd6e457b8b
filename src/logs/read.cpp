#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "ate/logs/logs.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/ids.hpp"
#include "logs/log_file.hpp"

namespace ate::logs {

namespace {

constexpr std::string_view kOut = ".stdout";
constexpr std::string_view kErr = ".stderr";

/// The container whose logs are meant.
Result<std::string> choose(const std::string& directory, const std::string& wanted) {
  if (!wanted.empty() && !is_dns_label(wanted)) {
    return fail(Errc::InvalidValue, "`" + wanted + "` can't be a container's name");
  }
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(directory));
  std::vector<std::string> containers;
  std::string list;
  for (const std::string& name : names) {
    if (name.ends_with(kOut)) {
      containers.push_back(name.substr(0, name.size() - kOut.size()));
      list += (list.empty() ? "" : ", ") + containers.back();
    }
  }
  if (containers.empty()) {
    return fail(Errc::NotFound, "there is no output yet");
  }
  if (wanted.empty()) {
    if (containers.size() > 1) {
      return fail(Errc::InvalidValue, "there are several containers, name one of: " + list);
    }
    return containers.front();
  }
  if (std::find(containers.begin(), containers.end(), wanted) == containers.end()) {
    return fail(Errc::NotFound, "there is no output of container " + wanted + ", only of: " + list);
  }
  return wanted;
}

/// Calls `use(file, place in the cursor)` for each stream that is asked for.
Status each_stream(const std::string& directory, const ReadOptions& options, Cursor& cursor,
                   const std::function<Status(const LogFile&, std::int64_t&)>& use) {
  ATE_ASSIGN(const std::string container, choose(directory, options.container));
  for (const auto& [name, suffix, place] :
       {std::tuple{std::string_view("stdout"), kOut, &cursor.out},
        std::tuple{std::string_view("stderr"), kErr, &cursor.err}}) {
    if (!options.stream.empty() && options.stream != name) {
      continue;
    }
    ATE_ASSIGN(const LogFile file,
               LogFile::open(directory + "/" + container + std::string(suffix)));
    ATE_TRY(use(file, *place));
  }
  return {};
}

Result<std::pair<Chunk, Cursor>> read_files(const std::string& directory,
                                            const ReadOptions& options, Cursor cursor,
                                            std::size_t limit) {
  Chunk chunk;
  // Each stream gets its half, so that a busy one does not starve the other.
  const std::size_t share = options.stream.empty() ? limit / 2 : limit;
  Status done = each_stream(
      directory, options, cursor, [&](const LogFile& file, std::int64_t& place) -> Status {
        ATE_ASSIGN(const LogFile::Piece piece, file.lines(place, share, options.unfinished));
        chunk.bytes += piece.bytes;
        chunk.dropped = chunk.dropped || piece.dropped;
        place = piece.next;
        return {};
      });
  ATE_TRY(done);
  return std::pair{std::move(chunk), cursor};
}

Result<Cursor> place_cursor(const std::string& directory, const ReadOptions& options) {
  Cursor cursor;
  Status done = each_stream(
      directory, options, cursor, [&](const LogFile& file, std::int64_t& place) -> Status {
        if (options.tail_lines >= 0) {
          ATE_ASSIGN(place, file.tail(options.tail_lines, options.unfinished));
        }
        return {};
      });
  ATE_TRY(done);
  return cursor;
}

}  // namespace

async::Task<Result<Chunk>> read(async::Context& context, std::string directory, ReadOptions options,
                                std::shared_ptr<Cursor> cursor, std::size_t limit) {
  std::function<Result<std::pair<Chunk, Cursor>>()> work = [directory, options, from = *cursor,
                                                            limit] {
    return read_files(directory, options, from, limit);
  };
  using Answer = std::pair<Chunk, Cursor>;
  ATE_CO_ASSIGN(Answer answer, co_await async::run_blocking(context, std::move(work)));
  *cursor = answer.second;
  co_return std::move(answer.first);
}

async::Task<Result<Cursor>> start(async::Context& context, std::string directory,
                                  ReadOptions options) {
  std::function<Result<Cursor>()> work = [directory, options] {
    return place_cursor(directory, options);
  };
  co_return co_await async::run_blocking(context, std::move(work));
}

}  // namespace ate::logs
