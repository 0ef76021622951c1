/* The values in each base-3^5 byte, written out by the preprocessor. */
#include "codecs/prim/quartic.h"

#define BYTE(b)      {(b) / 81 - 1, (b) / 27 % 3 - 1, (b) / 9 % 3 - 1, (b) / 3 % 3 - 1, (b) % 3 - 1},
#define BYTES_3(b)   BYTE(b) BYTE((b) + 1) BYTE((b) + 2)
#define BYTES_9(b)   BYTES_3(b) BYTES_3((b) + 3) BYTES_3((b) + 6)
#define BYTES_27(b)  BYTES_9(b) BYTES_9((b) + 9) BYTES_9((b) + 18)
#define BYTES_81(b)  BYTES_27(b) BYTES_27((b) + 27) BYTES_27((b) + 54)
#define BYTES_243(b) BYTES_81(b) BYTES_81((b) + 81) BYTES_81((b) + 162)

const int8_t fedcodec_quartic_values[FEDCODEC_QUARTIC_BYTES][FEDCODEC_QUARTIC_DIGITS] = {
    BYTES_243(0)};
