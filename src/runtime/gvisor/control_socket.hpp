#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/core/json.hpp"

/// The sandbox's own socket, for what no runsc command tells without a process that waits: how a
/// container of several ended. The other side is the guest's kernel: what it says is bounded and
/// read strictly.
namespace ate::runtime::gvisor {

/// The wait status of the container's first process, when that has ended; waits for it as long as
/// it takes. RuntimeFailed when the sandbox has no such container, or is gone.
[[nodiscard]] async::Task<Result<std::uint32_t>> wait_container(std::string socket, std::string id);

/// Whether the container's first process has ended.
[[nodiscard]] async::Task<Result<bool>> container_ended(std::string socket, std::string id,
                                                        std::chrono::milliseconds limit);

/// SIGKILL to a process that was started in the container by exec, to what descends from it and to
/// what is in its group. `pid` and `others`, the commands that run there beside it, are numbers as
/// the container sees them.
[[nodiscard]] async::Task<Status> kill_process_tree(std::string socket, std::string id,
                                                    std::int64_t pid,
                                                    std::vector<std::int64_t> others);

/// What the sandbox answered to a call: its `result`. RuntimeFailed with what it says instead, or
/// when it is no such answer.
[[nodiscard]] Result<core::JsonValue> read_answer(const std::string& text);

/// One line of the sandbox's list of processes.
struct GuestProcess {
  std::int64_t pid = 0;
  std::int64_t parent = 0;
  std::int64_t group = 0;
};

/// The sandbox's own number of a command whose number in the container is `pid`: commands have no
/// parent there, and both count in the order of their start. 0 when it can't be told.
[[nodiscard]] std::int64_t command_number(const std::vector<GuestProcess>& all, std::int64_t pid,
                                          std::vector<std::int64_t> others);
/// `pid`, its descendants and what is in its group, `pid` first.
[[nodiscard]] std::vector<std::int64_t> process_tree(const std::vector<GuestProcess>& all,
                                                     std::int64_t pid);

}  // namespace ate::runtime::gvisor
