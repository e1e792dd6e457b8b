#include "ate/image/digest.hpp"

#include <string>

#include "support/catch.hpp"

using namespace ate;
using namespace ate::image;

TEST_CASE("digest: sha256 of known texts, in one piece and in many") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.update("a");
  hash.update("bc");
  CHECK(hash.finish() == sha256_hex("abc"));
  CHECK(is_sha256_digest("sha256:" + sha256_hex("")));
  CHECK_FALSE(is_sha256_digest(sha256_hex("")));
  CHECK_FALSE(is_sha256_digest("sha512:" + sha256_hex("")));
  CHECK_FALSE(is_sha256_digest("sha256:" + std::string(64, 'A')));
  CHECK_FALSE(is_sha256_digest("sha256:" + std::string(63, 'a')));
  CHECK_FALSE(is_sha256_digest("sha256:../../../../etc/passwd"));
}
