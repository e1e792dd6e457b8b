#include "ate/core/paths.hpp"

#include <utility>

namespace ate::core {

namespace {

// sun_path is 108 bytes with its terminator.
constexpr std::size_t kMaxSocketPath = 107;
// Below runDir the longest socket is an incarnation's hybrid vsock listener of one port:
// actors/<26>/<serial>/vsock_<port>. Serials beyond nine digits are not expected in the life of an
// actor; ports of agents are 32 bit.
constexpr std::size_t kLongestBelowRunDir =
    sizeof("/actors/01234567890123456789012345/123456789/vsock_4294967295") - 1;

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

}  // namespace

Paths::Paths(std::string state_dir, std::string run_dir)
    : state_dir_(without_trailing_slashes(std::move(state_dir))),
      run_dir_(without_trailing_slashes(std::move(run_dir))) {}

std::string Paths::database() const {
  return state_dir_ + "/state.db";
}

std::string Paths::images() const {
  return state_dir_ + "/images";
}

std::string Paths::assets() const {
  return state_dir_ + "/assets";
}

std::string Paths::snapshots() const {
  return state_dir_ + "/snapshots";
}

std::string Paths::pause_rootfs() const {
  return state_dir_ + "/pause";
}

std::string Paths::actors() const {
  return state_dir_ + "/actors";
}

std::string Paths::actor(const std::string& uid) const {
  return actors() + "/" + uid;
}

std::string Paths::actor_logs(const std::string& uid) const {
  return actor(uid) + "/logs";
}

std::string Paths::actor_overlay(const std::string& uid, std::int64_t serial) const {
  return actor(uid) + "/overlay/" + std::to_string(serial);
}

std::string Paths::netns() const {
  return run_dir_ + "/netns";
}

std::string Paths::run_actors() const {
  return run_dir_ + "/actors";
}

std::string Paths::run_actor(const std::string& uid) const {
  return run_actors() + "/" + uid;
}

std::string Paths::incarnation(const std::string& uid, std::int64_t serial) const {
  return run_actor(uid) + "/" + std::to_string(serial);
}

Status Paths::check_lengths() const {
  const std::size_t longest = run_dir_.size() + kLongestBelowRunDir;
  if (longest <= kMaxSocketPath) {
    return {};
  }
  return fail(Error(Errc::InvalidValue,
                    "runDir " + run_dir_ + " is " + std::to_string(longest - kMaxSocketPath) +
                        " bytes too long: paths of unix sockets below it would need " +
                        std::to_string(longest) + " bytes, the kernel takes " +
                        std::to_string(kMaxSocketPath))
                  .with_field("spec.runDir"));
}

}  // namespace ate::core
