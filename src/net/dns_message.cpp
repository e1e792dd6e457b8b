#include "net/dns_message.hpp"

#include <algorithm>

namespace ate::net::dns {

namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxLabel = 63;
constexpr std::uint16_t kQr = 0x8000;
constexpr std::uint16_t kAa = 0x0400;
constexpr std::uint16_t kTc = 0x0200;
constexpr std::uint16_t kRd = 0x0100;
constexpr std::uint16_t kRa = 0x0080;
constexpr std::uint16_t kAd = 0x0020;
constexpr std::uint16_t kCd = 0x0010;
constexpr std::uint16_t kOpcode = 0x7800;
constexpr std::uint16_t kRcode = 0x000f;
constexpr std::uint16_t kTypeAaaa = 28;
constexpr std::uint16_t kTypeOpt = 41;
constexpr std::uint16_t kFirstMetaType = 249;  // TKEY, TSIG, IXFR, AXFR, MAILB, MAILA
constexpr std::uint16_t kTypeAny = 255;
constexpr std::uint16_t kClassIn = 1;
constexpr std::uint32_t kDnssecOk = 0x8000;
// Fits into every path's MTU, so that no fragment is needed (which is what spoofers wait for).
constexpr std::uint16_t kOurUdpSize = 1232;
constexpr std::uint32_t kBadVersion = 1U << 24U;  // extended RCODE 16, its upper eight bits

/// Reads within bounds; after the first failure everything is zero and `good()` false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool good() const { return good_; }

  [[nodiscard]] std::size_t at() const { return at_; }

  [[nodiscard]] bool at_end() const { return good_ && at_ == bytes_.size(); }

  std::uint8_t u8() {
    if (!need(1)) {
      return 0;
    }
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }

  std::uint16_t u16() {
    const unsigned high = u8();
    return static_cast<std::uint16_t>(high << 8U | u8());
  }

  std::uint32_t u32() {
    const std::uint32_t high = u16();
    return high << 16U | u16();
  }

  void skip(std::size_t count) {
    if (need(count)) {
      at_ += count;
    }
  }

  enum class Pointers : std::uint8_t { Allowed, Refused };

  /// A name is passed over, not followed: a pointer ends it, and has to lead backwards.
  void name(Pointers pointers) {
    const std::size_t start = at_;
    for (;;) {
      const std::uint8_t length = u8();
      if (!good_ || length == 0) {
        break;
      }
      if (length >= 0xc0 && pointers == Pointers::Allowed) {
        const std::size_t target = (length & 0x3fU) << 8U | u8();
        good_ = good_ && target >= kHeader && target < start;
        break;
      }
      if (length > kMaxLabel) {
        good_ = false;
        break;
      }
      skip(length);
    }
    good_ = good_ && at_ - start <= kMaxName;
  }

 private:
  bool need(std::size_t count) {
    good_ = good_ && bytes_.size() - at_ >= count;
    return good_;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

struct Header {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint16_t questions = 0;
  std::uint16_t answers = 0;
  std::uint16_t authorities = 0;
  std::uint16_t additionals = 0;
};

Header read_header(Reader& reader) {
  Header header;
  header.id = reader.u16();
  header.flags = reader.u16();
  header.questions = reader.u16();
  header.answers = reader.u16();
  header.authorities = reader.u16();
  header.additionals = reader.u16();
  return header;
}

void put16(std::string& out, std::uint16_t value) {
  out.push_back(static_cast<char>(value >> 8U));
  out.push_back(static_cast<char>(value & 0xffU));
}

void put_header(std::string& out, const Header& header) {
  for (const std::uint16_t field : {header.id, header.flags, header.questions, header.answers,
                                    header.authorities, header.additionals}) {
    put16(out, field);
  }
}

/// Extended RCODE and flags of EDNS in what is otherwise the TTL.
void put_opt(std::string& out, std::uint32_t extended) {
  out.push_back('\0');
  put16(out, kTypeOpt);
  put16(out, kOurUdpSize);
  put16(out, static_cast<std::uint16_t>(extended >> 16U));
  put16(out, static_cast<std::uint16_t>(extended));
  put16(out, 0);
}

/// Header, question and OPT, nothing else.
std::string bare_reply(const Query& query, std::uint16_t flags, std::uint32_t extended) {
  Header header;
  header.id = query.id;
  header.flags = static_cast<std::uint16_t>(kQr | kRa | (query.flags & (kRd | kCd)) | flags);
  header.questions = query.question.empty() ? 0 : 1;
  header.additionals = query.edns ? 1 : 0;
  std::string out;
  put_header(out, header);
  out.append(query.question);
  if (query.edns) {
    put_opt(out, extended | (query.dnssec_ok ? kDnssecOk : 0));
  }
  return out;
}

Verdict answer(const Query& query, Rcode rcode) {
  return {.kind = Verdict::Kind::Reply, .reply = failure(query, rcode), .query = {}};
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// A resolver may write the letters of the name in another case; type and class are as asked.
bool same_question(std::string_view a, std::string_view b) {
  constexpr std::size_t kTail = 4;
  return a.size() == b.size() && a.size() >= kTail &&
         a.substr(a.size() - kTail) == b.substr(b.size() - kTail) &&
         std::equal(a.begin(), a.end() - kTail, b.begin(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

Verdict judge_query(std::string_view message) {
  Reader reader(message);
  const Header header = read_header(reader);
  if (!reader.good() || (header.flags & kQr) != 0 || message.size() > kMaxUdpQuery) {
    return {};  // an answer is never answered
  }
  Query query;
  query.id = header.id;
  query.flags = header.flags & (kRd | kAd | kCd);
  if ((header.flags & kOpcode) != 0) {
    return answer(query, Rcode::NotImp);
  }
  if ((header.flags & kTc) != 0 || header.questions != 1 || header.answers != 0 ||
      header.authorities != 0 || header.additionals > 1) {
    return answer(query, Rcode::FormErr);
  }
  reader.name(Reader::Pointers::Refused);
  query.type = reader.u16();
  const std::uint16_t asked_class = reader.u16();
  if (!reader.good()) {
    return answer(query, Rcode::FormErr);
  }
  query.question = std::string(message.substr(kHeader, reader.at() - kHeader));
  std::uint32_t extended = 0;
  if (header.additionals == 1) {
    const std::uint8_t root = reader.u8();
    const std::uint16_t type = reader.u16();
    query.udp_size = std::max<std::uint16_t>(512, reader.u16());
    extended = reader.u32();
    reader.skip(reader.u16());
    if (!reader.good() || root != 0 || type != kTypeOpt) {
      return answer(query, Rcode::FormErr);
    }
    query.edns = true;
    query.dnssec_ok = (extended & kDnssecOk) != 0;
  }
  if (!reader.at_end() || query.type == kTypeOpt || query.type == 0) {
    return answer(query, Rcode::FormErr);
  }
  if ((extended >> 16U & 0xffU) != 0) {  // a version of EDNS that does not exist yet
    return {.kind = Verdict::Kind::Reply, .reply = bare_reply(query, 0, kBadVersion), .query = {}};
  }
  if (query.type == kTypeAny) {
    return answer(query, Rcode::NotImp);
  }
  if (asked_class != kClassIn || query.type >= kFirstMetaType) {
    return answer(query, Rcode::Refused);
  }
  if (query.type == kTypeAaaa) {
    return answer(query, Rcode::NoError);
  }
  return {.kind = Verdict::Kind::Forward, .reply = {}, .query = std::move(query)};
}

std::string forwarded(const Query& query, std::uint16_t id) {
  Header header;
  header.id = id;
  // Always recursive: without, an actor could look at what others have asked for.
  header.flags = static_cast<std::uint16_t>(kRd | (query.flags & (kAd | kCd)));
  header.questions = 1;
  header.additionals = query.edns ? 1 : 0;
  std::string out;
  put_header(out, header);
  out.append(query.question);
  if (query.edns) {
    put_opt(out, query.dnssec_ok ? kDnssecOk : 0);
  }
  return out;
}

std::optional<std::string> relayed(std::string_view answer, const Query& query, std::uint16_t id) {
  Reader reader(answer);
  const Header header = read_header(reader);
  const std::size_t after_question = kHeader + query.question.size();
  if (!reader.good() || header.id != id || (header.flags & kQr) == 0 ||
      (header.flags & kOpcode) != 0 || header.questions != 1 || answer.size() > kMaxMessage ||
      answer.size() < after_question ||
      !same_question(answer.substr(kHeader, query.question.size()), query.question)) {
    return std::nullopt;
  }
  constexpr std::uint16_t kPassed = kAa | kRa | kAd | kCd | kRcode;
  const auto flags = static_cast<std::uint16_t>(header.flags & kPassed);
  if ((header.flags & kTc) != 0) {
    return bare_reply(query, static_cast<std::uint16_t>(flags | kTc), 0);
  }
  reader.skip(query.question.size());
  const unsigned records = unsigned{header.answers} + header.authorities;
  for (unsigned i = 0; i < records && reader.good(); ++i) {
    reader.name(Reader::Pointers::Allowed);
    const std::uint16_t type = reader.u16();
    reader.skip(2 + 4);  // class, TTL
    reader.skip(reader.u16());
    if (type == kTypeAaaa || type == kTypeOpt) {
      return std::nullopt;
    }
  }
  if (!reader.good()) {
    return std::nullopt;
  }
  Header out_header = header;
  out_header.id = query.id;
  out_header.flags = static_cast<std::uint16_t>(kQr | flags | (query.flags & kRd));
  out_header.additionals = query.edns ? 1 : 0;
  std::string out;
  put_header(out, out_header);
  out.append(query.question);
  out.append(answer.substr(after_question, reader.at() - after_question));
  if (query.edns) {
    put_opt(out, query.dnssec_ok ? kDnssecOk : 0);
  }
  return out;
}

std::uint8_t rcode_of(std::string_view reply) {
  return reply.size() < 4 ? 0 : static_cast<std::uint8_t>(reply[3]) & 0x0fU;
}

std::string failure(const Query& query, Rcode rcode) {
  return bare_reply(query, static_cast<std::uint16_t>(rcode), 0);
}

std::string fit_datagram(std::string reply, const Query& query) {
  if (reply.size() <= query.udp_size) {
    return reply;
  }
  return bare_reply(query, static_cast<std::uint16_t>(kTc | rcode_of(reply)), 0);
}

}  // namespace ate::net::dns
