#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

namespace ate::os {

/// What the child did last; with the errno it tells what went wrong before exec.
enum class SpawnStep : int {
  Started,
  Session,
  ParentDeath,
  Network,
  Descriptors,
  WorkingDirectory,
  Capabilities,
  Exec,
};

/// Everything that the child needs, prepared by the parent. The child shares the parent's memory
/// until exec (CLONE_VM | CLONE_VFORK), so `step` and `error` are read by the parent afterwards.
struct ChildPlan {
  const char* executable = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  const char* working_dir = nullptr;
  const std::pair<int, int>* fds = nullptr;
  int* moved = nullptr;  // room for `count` descriptors
  std::size_t count = 0;
  int scratch_base = 3;  // above every number that the child is to have
  int null_fd = -1;
  int netns_fd = -1;
  pid_t parent = 0;
  bool drop_chown = false;
  bool new_session = false;
  bool die_with_parent = false;
  SpawnStep step = SpawnStep::Started;
  int error = 0;
};

/// Runs in the child, on a stack of its own; ends in execve or _exit(127).
void run_child(void* plan);

}  // namespace ate::os
