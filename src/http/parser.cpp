// Beast reads the heads, nothing else: framing and bodies are ours (framing.cpp), because
// Beast 1.81 accepts bodies, trailers and chunk extensions that we refuse.
#include "http/parser.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/none.hpp>
#include <limits>

namespace ate::http {

namespace {

namespace beast = boost::beast;
using beast::error_code;
using beast::string_view;

template <bool isRequest>
class HeadParser final : public beast::http::basic_parser<isRequest> {
 public:
  explicit HeadParser(Head& head) : head_(head) {
    // HeadScan and the framing checks hold the limits.
    this->header_limit(std::numeric_limits<std::uint32_t>::max());
    this->body_limit(boost::none);
  }

 private:
  void on_request_impl(beast::http::verb /*method*/, string_view method, string_view target,
                       int version, error_code& error) override {
    error = {};
    head_.version = version;
    head_.method.assign(method.data(), method.size());
    head_.target.assign(target.data(), target.size());
  }

  void on_response_impl(int code, string_view reason, int version, error_code& error) override {
    error = {};
    head_.version = version;
    head_.status = code;
    head_.reason.assign(reason.data(), reason.size());
  }

  void on_field_impl(beast::http::field /*name*/, string_view name, string_view value,
                     error_code& error) override {
    error = {};
    head_.headers.emplace_back(std::piecewise_construct,
                               std::forward_as_tuple(name.data(), name.size()),
                               std::forward_as_tuple(value.data(), value.size()));
  }

  void on_header_impl(error_code& error) override { error = {}; }

  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         error_code& error) override {
    error = {};
  }

  std::size_t on_body_impl(string_view body, error_code& error) override {
    error = {};
    return body.size();
  }

  void on_chunk_header_impl(std::uint64_t /*size*/, string_view /*extensions*/,
                            error_code& error) override {
    error = {};
  }

  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, string_view body,
                                 error_code& error) override {
    error = {};
    return body.size();
  }

  void on_finish_impl(error_code& error) override { error = {}; }

  Head& head_;
};

template <bool isRequest>
Status parse(std::string_view bytes, Head& head) {
  head.headers.clear();
  HeadParser<isRequest> parser(head);
  error_code error;
  const std::size_t used = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error) {
    return fail(Errc::Malformed, "malformed HTTP head: " + error.message());
  }
  if (!parser.is_header_done() || used != bytes.size()) {
    return fail(Errc::Malformed, "malformed HTTP head");
  }
  return {};
}

}  // namespace

Status parse_request_head(std::string_view bytes, Head& head) {
  return parse<true>(bytes, head);
}

Status parse_reply_head(std::string_view bytes, Head& head) {
  return parse<false>(bytes, head);
}

}  // namespace ate::http
