#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "image/limits.hpp"
#include "image/stream.hpp"

namespace ate::image {

namespace {

constexpr std::size_t kInputChunk = std::size_t{128} << 10U;

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

// The input side that both formats share: a chunk and a position in it.
class Input {
 public:
  explicit Input(ByteSource& inner) : inner_(inner), buffer_(kInputChunk) {}

  // Refills when used up; false at the end.
  Result<bool> fill() {
    if (at_ < end_) {
      return true;
    }
    ATE_ASSIGN(end_, inner_.read(buffer_));
    at_ = 0;
    return end_ > 0;
  }

  // Looks at the first bytes of the stream; only before anything was consumed.
  Result<std::array<std::uint8_t, 4>> magic() {
    std::array<std::uint8_t, 4> bytes{};
    while (end_ < bytes.size()) {
      ATE_ASSIGN(const std::size_t got, inner_.read(std::span(buffer_).subspan(end_)));
      if (got == 0) {
        break;
      }
      end_ += got;
    }
    for (std::size_t i = 0; i < bytes.size() && i < end_; ++i) {
      bytes[i] = std::to_integer<std::uint8_t>(buffer_[i]);
    }
    return bytes;
  }

  [[nodiscard]] std::span<std::byte> rest() { return std::span(buffer_).subspan(at_, end_ - at_); }

  void consume(std::size_t count) { at_ += count; }

 private:
  ByteSource& inner_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

bool is_gzip(const std::array<std::uint8_t, 4>& magic) {
  return magic[0] == 0x1f && magic[1] == 0x8b;
}

// A zstd frame or a skippable one (zstd:chunked begins with none, but may).
bool is_zstd(const std::array<std::uint8_t, 4>& magic) {
  const bool frame = magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd;
  const bool skippable =
      (magic[0] & 0xf0U) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18;
  return frame || skippable;
}

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(ByteSource& inner) : input_(inner) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (!started_) {
      started_ = true;
      ATE_ASSIGN(const auto magic, input_.magic());
      if (is_gzip(magic) || is_zstd(magic)) {
        return invalid("the media type says tar without compression, the data is compressed");
      }
    }
    ATE_ASSIGN(const bool more, input_.fill());
    if (!more) {
      return 0;
    }
    const std::span<std::byte> rest = input_.rest();
    const std::size_t count = std::min(rest.size(), out.size());
    std::copy_n(rest.begin(), count, out.begin());
    input_.consume(count);
    return count;
  }

 private:
  Input input_;
  bool started_ = false;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(ByteSource& inner) : input_(inner) {}

  ~GzipSource() override {
    if (started_) {
      // IGNORED: frees memory only.
      static_cast<void>(::inflateEnd(&stream_));
    }
  }

  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  GzipSource(GzipSource&&) = delete;
  GzipSource& operator=(GzipSource&&) = delete;

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (!started_) {
      ATE_TRY(start());
    }
    while (true) {
      ATE_ASSIGN(const bool more, input_.fill());
      if (!more && member_done_) {
        return 0;
      }
      if (member_done_) {
        // Members in a row are one stream (pigz, eStargz); anything else after one is junk.
        if (::inflateReset(&stream_) != Z_OK) {
          return fail(Errc::Internal, "inflateReset failed");
        }
        member_done_ = false;
      }
      ATE_ASSIGN(const std::size_t produced, step(out, more));
      if (produced > 0) {
        return produced;
      }
    }
  }

 private:
  Status start() {
    ATE_ASSIGN(const auto magic, input_.magic());
    if (!is_gzip(magic)) {
      return invalid("the media type says gzip, the data is not");
    }
    constexpr int kGzipOnly = 15 + 16;
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      return fail(Errc::Internal, "inflateInit2 failed");
    }
    started_ = true;
    return {};
  }

  Result<std::size_t> step(std::span<std::byte> out, bool more) {
    const std::span<std::byte> rest = input_.rest();
    // SAFETY: zlib wants unsigned char; std::byte may alias as it.
    stream_.next_in = reinterpret_cast<Bytef*>(rest.data());
    stream_.avail_in = static_cast<uInt>(rest.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30U));
    stream_.avail_out = room;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    input_.consume(rest.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      member_done_ = true;
    } else if (result == Z_BUF_ERROR && !more) {
      return invalid("the gzip data ends early");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return invalid("the gzip data is damaged, or junk follows it");
    }
    return room - stream_.avail_out;
  }

  Input input_;
  z_stream stream_{};
  bool started_ = false;
  bool member_done_ = false;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(ByteSource& inner) : input_(inner), stream_(::ZSTD_createDCtx()) {}

  ~ZstdSource() override {
    // IGNORED: frees memory only.
    static_cast<void>(::ZSTD_freeDCtx(stream_));
  }

  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;
  ZstdSource(ZstdSource&&) = delete;
  ZstdSource& operator=(ZstdSource&&) = delete;

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (!started_) {
      ATE_TRY(start());
    }
    while (true) {
      // A frame that still holds output is drained before more input is asked for.
      if (!pending_) {
        ATE_ASSIGN(const bool more, input_.fill());
        if (!more) {
          if (!frame_done_) {
            return invalid("the zstd data ends early");
          }
          return 0;
        }
      }
      const std::span<std::byte> rest = input_.rest();
      ZSTD_inBuffer from{rest.data(), rest.size(), 0};
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const std::size_t result = ::ZSTD_decompressStream(stream_, &to, &from);
      if (::ZSTD_isError(result) != 0) {
        return invalid(std::string("the zstd data is damaged, or junk follows it: ") +
                       ::ZSTD_getErrorName(result));
      }
      input_.consume(from.pos);
      frame_done_ = result == 0;
      pending_ = !frame_done_ && to.pos == to.size;
      if (to.pos > 0) {
        return to.pos;
      }
    }
  }

 private:
  Status start() {
    ATE_ASSIGN(const auto magic, input_.magic());
    if (!is_zstd(magic)) {
      return invalid("the media type says zstd, the data is not");
    }
    if (stream_ == nullptr || ::ZSTD_isError(::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax,
                                                                      kZstdWindowLog)) != 0) {
      return fail(Errc::Internal, "creating the zstd decoder failed");
    }
    started_ = true;
    return {};
  }

  Input input_;
  ZSTD_DCtx* stream_;
  bool started_ = false;
  bool frame_done_ = true;
  bool pending_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> make_decompressor(ByteSource& inner, Compression compression) {
  switch (compression) {
    case Compression::None:
      return std::make_unique<PlainSource>(inner);
    case Compression::Gzip:
      return std::make_unique<GzipSource>(inner);
    case Compression::Zstd:
      return std::make_unique<ZstdSource>(inner);
  }
  return nullptr;
}

}  // namespace ate::image
