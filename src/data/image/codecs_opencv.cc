#include "data/image/codecs_opencv.h"

#include "core/module.h"

namespace crema {

const ImageCodecs& LoadedImageCodecs() {
  static const ImageCodecs* const codecs =
      reinterpret_cast<GetImageCodecs>(SymbolOfModule("libcrema_images.so", kGetImageCodecs))();
  return *codecs;
}

std::unique_ptr<FilmCodec> MakeFilmCodec() {
  static const auto make =
      reinterpret_cast<NewFilmCodec>(SymbolOfModule("libcrema_films.so", kNewFilmCodec));
  return std::unique_ptr<FilmCodec>(make());
}

std::unique_ptr<FilmEncoder> MakeFilmEncoder() {
  static const auto make =
      reinterpret_cast<NewFilmEncoder>(SymbolOfModule("libcrema_films.so", kNewFilmEncoder));
  return std::unique_ptr<FilmEncoder>(make());
}

}  // namespace crema
