#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/helper_run.hpp"

namespace ate::image {

// The store's directory: <directory>/sha256/<hex>/{config.json,rootfs/}, and .tmp-* while something
// is made or thrown away. Blocking; nothing here knows about coroutines.

[[nodiscard]] std::string image_directory(const std::string& store, const std::string& digest);

/// A job whose destination is a fresh temporary directory's rootfs.
[[nodiscard]] Result<std::shared_ptr<HelperJob>> open_unpack_job(const std::string& store,
                                                                 const Reference& reference,
                                                                 const HelperRequest& request);

/// Writes config.json and renames the temporary directory to its place; what stood there (and was
/// no valid image, or it would have been used) is thrown away.
[[nodiscard]] Result<Unpacked> commit_image(const std::string& store, const HelperJob& job,
                                            const HelperReply& reply);

/// The image if it is there and its config.json says it is this one.
[[nodiscard]] std::optional<Unpacked> read_image(const std::string& store,
                                                 const std::string& digest);

/// Makes the directories and removes every .tmp-*.
[[nodiscard]] Status prepare_store(const std::string& store);

/// Whole images of the store.
[[nodiscard]] Result<std::vector<Store::Listed>> list_images(const std::string& store);
/// Renames the image aside, where prepare_store finds it too; the new path, "" when it is not
/// there.
[[nodiscard]] Result<std::string> set_aside(const std::string& store, const std::string& digest);

}  // namespace ate::image
