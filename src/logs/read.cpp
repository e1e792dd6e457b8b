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

/// Which member of a Cursor belongs to a stream's file.
using Place = std::int64_t Cursor::*;

/// Calls `use(file, its place in a cursor)` for each stream that is asked for.
Status each_stream(const std::string& directory, const ReadOptions& options,
                   const std::function<Status(const LogFile&, Place)>& use) {
  ATE_ASSIGN(const std::string container, choose(directory, options.container));
  for (const auto& [name, suffix, place] :
       {std::tuple{std::string_view("stdout"), kOut, Place(&Cursor::out)},
        std::tuple{std::string_view("stderr"), kErr, Place(&Cursor::err)}}) {
    if (!options.stream.empty() && options.stream != name) {
      continue;
    }
    ATE_ASSIGN(const LogFile file,
               LogFile::open(directory + "/" + container + std::string(suffix)));
    ATE_TRY(use(file, place));
  }
  return {};
}

Result<std::pair<Chunk, Cursor>> read_files(const std::string& directory,
                                            const ReadOptions& options, Cursor cursor,
                                            std::size_t limit) {
  Chunk chunk;
  LogFile::Bounds bounds;
  // Each stream gets its half, so that a busy one does not starve the other.
  bounds.limit = options.stream.empty() ? limit / 2 : limit;
  bounds.unfinished = options.unfinished;
  Status done = each_stream(directory, options, [&](const LogFile& file, Place place) -> Status {
    bounds.until = options.until ? (*options.until).*place : -1;
    ATE_ASSIGN(const LogFile::Piece piece, file.lines(cursor.*place, bounds));
    chunk.bytes += piece.bytes;
    chunk.dropped = chunk.dropped || piece.dropped;
    cursor.*place = piece.next;
    return {};
  });
  ATE_TRY(done);
  return std::pair{std::move(chunk), cursor};
}

Result<Range> find_range(const std::string& directory, const ReadOptions& options) {
  Range range;
  Status done = each_stream(directory, options, [&](const LogFile& file, Place place) -> Status {
    ATE_ASSIGN(range.end.*place, file.size());
    if (options.tail_lines >= 0) {
      ATE_ASSIGN(range.begin.*place, file.tail(options.tail_lines, options.unfinished));
    }
    return {};
  });
  ATE_TRY(done);
  return range;
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

async::Task<Result<Range>> start(async::Context& context, std::string directory,
                                 ReadOptions options) {
  std::function<Result<Range>()> work = [directory, options] {
    return find_range(directory, options);
  };
  co_return co_await async::run_blocking(context, std::move(work));
}

}  // namespace ate::logs
