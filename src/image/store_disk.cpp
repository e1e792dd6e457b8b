#include "image/store_disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "ate/image/digest.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/ids.hpp"
#include "image/json.hpp"
#include "image/limits.hpp"
#include "image/oci.hpp"

namespace ate::image {

namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::int64_t kVersion = 1;

std::string temporary_path(const std::string& store) {
  return store + "/" + std::string(kTemporary) + random_hex(16);
}

std::string describe(const HelperReply& reply) {
  core::JsonObject out;
  out.number("version", kVersion);
  write_unpacked(out, reply);
  return std::move(out).finish() + "\n";
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<Unpacked> read_description(const std::string& directory, const std::string& digest) {
  ATE_ASSIGN(const std::string text, os::read_file(directory + "/config.json", kMaxReplyBytes));
  ATE_ASSIGN(const core::JsonValue value, parse_json(text));
  const core::JsonValue* version = value.find("version");
  const core::JsonValue* written = value.find("digest");
  const core::JsonValue* config = value.find("config");
  const bool right = version != nullptr && version->as_integer() == kVersion &&
                     written != nullptr && written->as_text() != nullptr &&
                     *written->as_text() == digest && config != nullptr;
  if (!right) {
    return fail(Errc::ImageInvalid, "config.json is not of this image");
  }
  Unpacked image;
  ATE_ASSIGN(image.config, config_from_json(*config));
  image.digest = digest;
  image.rootfs = directory + "/rootfs";
  return image;
}

Status make_way(const std::string& store, const std::string& target) {
  if (!os::exists(target)) {
    return {};
  }
  const std::string aside = temporary_path(store);
  ATE_TRY(os::rename_durably(target, aside));
  return os::remove_tree(aside);
}

}  // namespace

std::string image_directory(const std::string& store, const std::string& digest) {
  return store + "/sha256/" + digest.substr(7);
}

Result<std::shared_ptr<HelperJob>> open_unpack_job(const std::string& store,
                                                   const Reference& reference,
                                                   const HelperRequest& request) {
  ATE_ASSIGN(std::shared_ptr<HelperJob> job, HelperJob::open(reference, request));
  job->temporary = temporary_path(store);
  ATE_TRY(os::make_dir(job->temporary, 0710));
  const std::string rootfs = job->temporary + "/rootfs";
  Status made = os::make_dir(rootfs, 0755);
  if (made) {
    job->destination = UniqueFd(::open(rootfs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!job->destination) {
      made = fail(Error::from_errno("opening " + rootfs, errno));
    }
  }
  if (!made) {
    // IGNORED: the first error is the one to tell; the next start removes what stays.
    static_cast<void>(os::remove_tree(job->temporary));
    return fail(std::move(made).error());
  }
  return job;
}

Result<Unpacked> commit_image(const std::string& store, const HelperJob& job,
                              const HelperReply& reply) {
  const std::string target = image_directory(store, reply.digest);
  // The helper looked already; but an empty tree that counts as an image would be found only by
  // an actor that does not start (case T54), so it is looked at again from outside.
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(job.temporary + "/rootfs"));
  if (names.empty()) {
    return fail(Errc::ImageInvalid, "the layers hold no files");
  }
  ATE_TRY(os::write_file_atomic(job.temporary + "/config.json", describe(reply), 0640));
  if (failpoint("image-commit-before")) {
    return fail(Errc::Internal, "failpoint image-commit-before");
  }
  ATE_TRY(make_way(store, target));
  ATE_TRY(os::rename_durably(job.temporary, target));
  if (failpoint("image-commit-after")) {
    return fail(Errc::Internal, "failpoint image-commit-after");
  }
  return read_description(target, reply.digest);
}

std::optional<Unpacked> read_image(const std::string& store, const std::string& digest) {
  const std::string directory = image_directory(store, digest);
  Result<Unpacked> image = read_description(directory, digest);
  if (!image || !is_directory(image->rootfs)) {
    return std::nullopt;
  }
  return std::move(*image);
}

Status prepare_store(const std::string& store) {
  ATE_TRY(os::make_dirs(store, 0710));
  ATE_TRY(os::make_dir(store + "/sha256", 0710));
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(store));
  for (const std::string& name : names) {
    if (name.starts_with(kTemporary)) {
      ATE_TRY(os::remove_tree(store + "/" + name));
    }
  }
  return {};
}

Result<std::vector<Store::Listed>> list_images(const std::string& store) {
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(store + "/sha256"));
  std::vector<Store::Listed> found;
  for (const std::string& name : names) {
    const std::string digest = "sha256:" + name;
    const std::string directory = store + "/sha256/" + name;
    struct stat info{};
    if (!is_sha256_digest(digest) || ::lstat(directory.c_str(), &info) != 0) {
      continue;
    }
    Store::Listed item;
    item.digest = digest;
    item.made_ms = std::int64_t{info.st_mtim.tv_sec} * 1000;
    const Result<std::string> text = os::read_file(directory + "/config.json", kMaxReplyBytes);
    const Result<core::JsonValue> value =
        text ? parse_json(*text) : Result<core::JsonValue>(fail(text.error()));
    const core::JsonValue* bytes = value ? value->find("storedBytes") : nullptr;
    item.bytes = bytes == nullptr ? 0 : bytes->as_integer().value_or(0);
    found.push_back(std::move(item));
  }
  return found;
}

Result<std::string> set_aside(const std::string& store, const std::string& digest) {
  const std::string directory = image_directory(store, digest);
  if (!os::exists(directory)) {
    return std::string();
  }
  std::string aside = temporary_path(store);
  // Not durable: after a crash the image is there again, and goes the next time.
  if (::rename(directory.c_str(), aside.c_str()) != 0) {
    return fail(Error::from_errno("renaming " + directory, errno));
  }
  return aside;
}

}  // namespace ate::image
