/* The values in each base-3^5 byte, written out by the preprocessor. */
#include "codecs/prim/quartic.h"

#define B1(b)   {(b) / 81 - 1, (b) / 27 % 3 - 1, (b) / 9 % 3 - 1, (b) / 3 % 3 - 1, (b) % 3 - 1},
#define B3(b)   B1(b) B1((b) + 1) B1((b) + 2)
#define B9(b)   B3(b) B3((b) + 3) B3((b) + 6)
#define B27(b)  B9(b) B9((b) + 9) B9((b) + 18)
#define B81(b)  B27(b) B27((b) + 27) B27((b) + 54)
#define B243(b) B81(b) B81((b) + 81) B81((b) + 162)

const int8_t fedcodec_quartic_values[FEDCODEC_QUARTIC_BYTES][FEDCODEC_QUARTIC_DIGITS] = {B243(0)};
