#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"
#include "ate/os/process.hpp"
#include "image/protocol.hpp"

namespace ate::image {

/// Everything one helper process is given. Made on the pool, since opening the source may block.
struct HelperJob {
  UniqueFd source;
  UniqueFd destination;
  UniqueFd request;
  UniqueFd reply;
  UniqueFd errors;
  std::string temporary;               // directory that is removed when the job fails; "" = none
  std::optional<os::Process> process;  // set by run_helper

  /// Fills `source` and the memfds. ImageInvalid when the source is missing or of the wrong kind.
  [[nodiscard]] static Result<std::shared_ptr<HelperJob>> open(const Reference& reference,
                                                               const HelperRequest& request);
};

struct HelperEnd {
  bool killed = false;  // by a signal that says nothing about the image: worth one more try
  Result<HelperReply> reply = fail(Errc::Internal, "the unpack helper did not run");
};

struct HelperOptions {
  std::string executable;
  int cgroup_fd = -1;
  std::chrono::seconds limit{600};
};

/// Starts the helper, waits for its end within the limit and reads its answer. When the waiting
/// coroutine is cancelled the helper is killed and not waited for; discard() does that.
[[nodiscard]] async::Task<HelperEnd> run_helper(async::Reaper& reaper, HelperOptions options,
                                                std::shared_ptr<HelperJob> job);

/// Removes what a job made, after the end of its process. Blocking, at most 10 s for the process.
void discard(const HelperJob& job);

}  // namespace ate::image
