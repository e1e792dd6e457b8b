#include <string>

#include "ate/image/image.hpp"
#include "support/catch.hpp"

using namespace ate;
using image::parse_reference;
using image::Reference;

TEST_CASE("reference: directory and archive, with and without tag") {
  struct Row {
    const char* text;
    Reference::Transport transport;
    const char* path;
    const char* tag;
  };

  const auto dir = Reference::Transport::OciDirectory;
  const auto archive = Reference::Transport::OciArchive;
  for (const Row& row :
       {Row{"oci:/srv/img", dir, "/srv/img", ""}, Row{"oci:/srv/img:v1.2", dir, "/srv/img", "v1.2"},
        Row{"oci-archive:/a/b.tar", archive, "/a/b.tar", ""},
        Row{"oci-archive:/a/b.tar:latest", archive, "/a/b.tar", "latest"},
        Row{"docker-archive:/d.tar", Reference::Transport::DockerArchive, "/d.tar", ""},
        Row{"docker-archive:/d.tar:app:1", Reference::Transport::DockerArchive, "/d.tar", "app:1"},
        Row{"oci-archive:/a/b.tar:localhost:5000/x/y:1", archive, "/a/b.tar",
            "localhost:5000/x/y:1"}}) {
    CAPTURE(row.text);
    const Result<Reference> parsed = parse_reference(row.text);
    REQUIRE(parsed);
    CHECK(parsed->transport == row.transport);
    CHECK(parsed->path == row.path);
    CHECK(parsed->tag == row.tag);
  }
}

TEST_CASE("reference: what is refused says what to use instead") {
  struct Row {
    std::string text;
    Errc code;
    const char* says;
  };

  for (const Row& row :
       {Row{"", Errc::InvalidValue, "oci-archive:/path.tar"},
        Row{"oci:", Errc::InvalidValue, "must be absolute"},
        Row{"oci:relative", Errc::InvalidValue, "must be absolute"},
        Row{"oci-archive:./x.tar", Errc::InvalidValue, "must be absolute"},
        Row{"oci:/a:", Errc::InvalidValue, "tag"}, Row{"oci:/a:b c", Errc::InvalidValue, "tag"},
        Row{"oci:/a:" + std::string(256, 'x'), Errc::InvalidValue, "tag"},
        Row{"oci:/a\nb", Errc::InvalidValue, "control"},
        Row{std::string("oci:/a\0b", 8), Errc::InvalidValue, "control"},
        Row{"oci:/" + std::string(4096, 'x'), Errc::InvalidValue, "4095"},
        Row{"/srv/x.tar", Errc::InvalidValue, "no transport"},
        Row{"docker-archive:x.tar", Errc::InvalidValue, "must be absolute"},
        Row{"docker://debian", Errc::NotYetSupported, "registries"},
        Row{"debian:12", Errc::NotYetSupported, "registries"},
        Row{"ghcr.io/a/b@sha256:00", Errc::NotYetSupported, "examples/make-oci"}}) {
    CAPTURE(row.text);
    const Result<Reference> parsed = parse_reference(row.text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code() == row.code);
    CHECK(parsed.error().message().find(row.says) != std::string::npos);
  }
}
