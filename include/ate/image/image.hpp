#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"

namespace ate::image {

/// A reference as templates write it: `oci:/path[:tag]`, `oci-archive:/path.tar[:tag]` or
/// `docker-archive:/path.tar[:name[:tag]]`.
struct Reference {
  enum class Transport : std::uint8_t { OciDirectory, OciArchive, DockerArchive };
  Transport transport = Transport::OciDirectory;
  std::string path;  // absolute
  std::string tag;   // empty: the index must hold exactly one usable manifest
};

/// Syntax only. InvalidValue for anything else; NotYetSupported for registries.
[[nodiscard]] Result<Reference> parse_reference(const std::string& text);
/// `oci`, `oci-archive`, `docker-archive`.
[[nodiscard]] std::string_view transport_name(Reference::Transport transport);

/// What the image's config says about the process, validated (no NUL, bounded).
struct Config {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string user;         // as in the image: "", name, uid, name:group, ...
  std::string working_dir;  // "" = /
  std::string stop_signal;  // "" = SIGTERM
};

/// A user resolved against the image's own /etc/passwd and /etc/group, beneath the rootfs.
struct User {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> additional_gids;
  std::string home;  // "/" when unknown
};

/// An unpacked image in the store.
struct Unpacked {
  std::string digest;  // sha256:<hex> of the manifest; of the config in a docker archive
  std::string rootfs;  // absolute path; read-only by agreement, shared by all actors
  Config config;
};

/// Resolves `user` ("", "1000", "1000:100", "name", "name:group") inside `rootfs`
/// (openat2 RESOLVE_IN_ROOT). InvalidValue names what is missing.
[[nodiscard]] Result<User> resolve_user(const std::string& rootfs, const std::string& user);

/// Where something is mounted over an image's tree.
struct MountPoint {
  std::string path;  // absolute, in the image
  bool is_directory = false;
};

/// ImageInvalid when the tree has something there that can't be mounted over. Missing ones are
/// fine: runsc makes them. It opens what is there, so that it would wait for a FIFO for good.
[[nodiscard]] Status check_mount_points(const std::string& rootfs,
                                        const std::vector<MountPoint>& points);

/// Content-addressed store <stateDir>/images/sha256/<hex>/{config.json,rootfs/}. Unpacking runs in
/// a confined helper (our own executable re-executed as `ate-noded unpack-helper`), single flight
/// per digest, into a temporary directory renamed into place when every digest was right: a killed
/// unpack leaves nothing that is chosen (case T54), and prepare() removes its remains.
class Store {
 public:
  struct Options {
    std::string directory;      // <stateDir>/images
    std::string helper;         // /proc/self/exe of the daemon, opened at start
    int helper_cgroup_fd = -1;  // cgroup of helpers; -1 = ours
    std::chrono::seconds unpack_timeout{600};
  };

  Store(async::Context& context, async::Reaper& reaper, Options options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  Store(Store&&) = delete;
  Store& operator=(Store&&) = delete;

  /// Creates the tree, removes temporary remains of an earlier process.
  [[nodiscard]] Status prepare();
  /// Tag -> manifest digest (reads index.json of the source). ImageInvalid with the reason.
  [[nodiscard]] async::Task<Result<std::string>> resolve(Reference reference);
  /// Unpacks when it is not there yet (verified: config.json carries its digest); joins a running
  /// unpack.
  [[nodiscard]] async::Task<Result<Unpacked>> ensure(Reference reference, std::string digest);
  /// What is already there; nullopt otherwise. Never unpacks.
  [[nodiscard]] std::optional<Unpacked> find(const std::string& digest);

  struct Listed {
    std::string digest;
    std::int64_t bytes = 0;    // that its files were stored with
    std::int64_t made_ms = 0;  // wall clock
  };

  /// Whole images; unpacks in flight are not among them.
  [[nodiscard]] async::Task<Result<std::vector<Listed>>> list();
  /// Out of the way at once (before the first suspension), unlinked then. The caller knows that
  /// nothing names it; an `ensure` that comes later unpacks it again.
  [[nodiscard]] async::Task<Status> remove(std::string digest);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Entry point of the helper process (daemon/main.cpp dispatches `unpack-helper` here). Returns the
/// exit code.
[[nodiscard]] int unpack_helper_main(int argc, char** argv);

}  // namespace ate::image
