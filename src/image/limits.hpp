#pragma once

#include <cstddef>
#include <cstdint>

namespace ate::image {

// What an image may ask of the host. An image is data from a stranger: each number bounds one thing
// that it could otherwise make us allocate, and stands far above what real images need.

/// JSON documents (index, manifest, config): the registries' own limit for manifests.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{4} << 20U;
inline constexpr std::size_t kMaxJsonDepth = 32;
/// Values in one document; a 4 MiB document of `[[],[],…` would otherwise become 100 MiB of memory.
inline constexpr std::size_t kMaxJsonValues = 200'000;

/// overlayfs and Docker stop at 127 and 128.
inline constexpr std::size_t kMaxLayers = 128;
/// An index in an index in an index: nothing real nests deeper than one.
inline constexpr int kMaxIndexDepth = 4;

/// Entries over all layers. A big CUDA or node image has 300,000.
inline constexpr std::uint64_t kMaxEntries = 1'000'000;
/// Entries of the outer archive: blobs and folders.
inline constexpr std::uint64_t kMaxArchiveEntries = 10'000;

inline constexpr std::size_t kMaxPathBytes = 4096;      // PATH_MAX
inline constexpr std::size_t kMaxComponentBytes = 255;  // NAME_MAX
inline constexpr std::size_t kMaxDepth = 128;
/// Symlinks followed while one path is resolved (containerd: 255).
inline constexpr int kMaxSymlinks = 255;

/// Extended headers of one entry (pax records, GNU long names).
inline constexpr std::uint64_t kMaxPaxBytes = std::uint64_t{1} << 20U;
inline constexpr std::size_t kMaxXattrs = 64;
inline constexpr std::size_t kMaxXattrBytes = std::size_t{32} << 10U;
/// Regions of a sparse file: bounds the map's memory to 1 MiB.
inline constexpr std::size_t kMaxSparseRegions = 65'536;

/// Bytes that reach the disk (blocks that are not all zero) over all layers: at most this, and at
/// most 1000 x the compressed size + 1 GiB. gzip reaches 1032:1 at most, real layers 2:1 to 10:1.
inline constexpr std::uint64_t kMaxStoredBytes = std::uint64_t{64} << 30U;
inline constexpr std::uint64_t kStoredRatio = 1000;
inline constexpr std::uint64_t kStoredSlack = std::uint64_t{1} << 30U;
/// Uncompressed bytes over all layers, zeros included: they become holes, so this bounds time, not
/// disk (a plain 8 GiB file of zeros is legitimate and compresses 30,000:1).
inline constexpr std::uint64_t kMaxStreamBytes = std::uint64_t{256} << 30U;
/// Size of one file, holes included.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 30U;

/// zstd's own default for streams; a frame may otherwise ask for 2 GiB of memory.
inline constexpr int kZstdWindowLog = 27;

/// uids and gids above are refused: 32-bit signed is what every tool handles the same way
/// (CVE-2024-40635 was a wrap to root).
inline constexpr std::uint64_t kMaxId = 0x7fffffff;

/// Address space of the helper: zstd window, the layer's path set, buffers.
inline constexpr std::uint64_t kHelperAddressSpace = std::uint64_t{2} << 30U;

/// Config of the image: entries of one list, bytes of one text, bytes in all.
inline constexpr std::size_t kMaxConfigEntries = 4096;
inline constexpr std::size_t kMaxConfigText = 128 * 1024;  // MAX_ARG_STRLEN
inline constexpr std::size_t kMaxConfigBytes = 1024 * 1024;

/// What the helper may answer.
inline constexpr std::size_t kMaxReplyBytes = std::size_t{4} << 20U;
inline constexpr std::size_t kMaxHelperErrorBytes = std::size_t{16} << 10U;

}  // namespace ate::image
