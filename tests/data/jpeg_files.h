// JPEG files of every kind, for tests. Needs libjpeg.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// clang-format off: it takes size_t and FILE from those before
#include <jpeglib.h>
// clang-format on

namespace crema::testing {

struct JpegKind {
  std::string name = "444";
  int h = 1;  // sampling factors of the first component, the others' being 1
  int v = 1;
  int components = 3;  // 1: gray, 3: colour, 4: CMYK
  J_COLOR_SPACE stored = JCS_YCbCr;
  bool progressive = false;
  bool arithmetic = false;
  bool separate_scans = false;  // one for each component
  unsigned restart = 0;         // MCUs
  std::string app1 = "";        // contents of such a segment
};

inline JpegKind Sampled(const std::string& name, int h, int v) {
  JpegKind kind;
  kind.name = name;
  kind.h = h;
  kind.v = v;
  return kind;
}

// Smooth waves with some noise: adjacent pixels differ.
inline std::vector<uint8_t> Waves(int height, int width, int components) {
  std::vector<uint8_t> pixels;
  uint32_t noise = 1;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < components; ++c) {
        noise = noise * 1664525 + 1013904223;
        const double wave = std::sin(0.21 * x + 0.5 * c) * std::cos(0.17 * y - 0.9 * c);
        pixels.push_back(static_cast<uint8_t>(128 + 100 * wave + (noise >> 28)));
      }
    }
  }
  return pixels;
}

inline std::string MakeJpeg(int height, int width, const JpegKind& kind) {
  const std::vector<uint8_t> pixels = Waves(height, width, kind.components);
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: its type
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = kind.components;
  info.in_color_space =
      kind.components == 1 ? JCS_GRAYSCALE : (kind.components == 3 ? JCS_RGB : JCS_CMYK);
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.components == 1 ? JCS_GRAYSCALE : kind.stored);
  jpeg_set_quality(&info, 90, TRUE);
  for (int c = 0; c < kind.components; ++c) {
    info.comp_info[c].h_samp_factor = c == 0 || c == 3 ? kind.h : 1;
    info.comp_info[c].v_samp_factor = c == 0 || c == 3 ? kind.v : 1;
  }
  info.restart_interval = kind.restart;
  if (kind.arithmetic) info.arith_code = TRUE;
  std::vector<jpeg_scan_info> scans(static_cast<size_t>(kind.components));
  if (kind.separate_scans) {
    for (size_t c = 0; c < scans.size(); ++c) {
      scans[c] = {1, {static_cast<int>(c)}, 0, 63, 0, 0};
    }
    info.scan_info = scans.data();
    info.num_scans = kind.components;
  }
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!kind.app1.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(kind.app1.data()),
                      static_cast<unsigned>(kind.app1.size()));
  }
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(
        &pixels[info.next_scanline * static_cast<size_t>(width * kind.components)]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

// Every way of storing pixels that libjpeg supports.
inline std::vector<JpegKind> AllKinds() {
  std::vector<JpegKind> kinds = {Sampled("444", 1, 1), Sampled("422", 2, 1), Sampled("420", 2, 2),
                                 Sampled("440", 1, 2), Sampled("411", 4, 1), Sampled("410", 4, 2)};
  const auto add = [&](JpegKind kind, const std::string& name, const auto& change) {
    kind.name = name;
    change(&kind);
    kinds.push_back(kind);
  };
  const JpegKind half = Sampled("420", 2, 2);
  add(half, "420 progressive", [](JpegKind* kind) { kind->progressive = true; });
  add(half, "420 arithmetic", [](JpegKind* kind) { kind->arithmetic = true; });
  add(half, "420 in three scans", [](JpegKind* kind) { kind->separate_scans = true; });
  add(half, "420 restarting", [](JpegKind* kind) { kind->restart = 3; });
  add(Sampled("", 2, 1), "422 progressive", [](JpegKind* kind) { kind->progressive = true; });
  add({}, "gray", [](JpegKind* kind) { kind->components = 1; });
  add(half, "gray with factors", [](JpegKind* kind) { kind->components = 1; });
  add({}, "gray progressive", [](JpegKind* kind) {
    kind->components = 1;
    kind->progressive = true;
  });
  add({}, "RGB", [](JpegKind* kind) { kind->stored = JCS_RGB; });
  const auto ink = [](J_COLOR_SPACE space) {
    return [space](JpegKind* kind) {
      kind->components = 4;
      kind->stored = space;
    };
  };
  add({}, "CMYK", ink(JCS_CMYK));
  add({}, "YCCK", ink(JCS_YCCK));
  add(half, "YCCK 420", ink(JCS_YCCK));
  return kinds;
}

}  // namespace crema::testing
