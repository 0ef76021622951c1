/* A reader of HTTP/1.1 answers. It collects each line; a body goes to the caller's writer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/transports/mbedtls/http1.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DECIMAL_DIGITS = 19, HEX_DIGITS = 15 }; /* numbers of this many digits fit into 64 bits */

static fed_status refuse(fedclient_http1 *h, const char *why) {
    h->problem = why;
    return FED_EFORMAT;
}

void fedclient_http1_begin(fedclient_http1 *h, fed_writer *answer, size_t limit) {
    *h = (fedclient_http1){.answer = answer, .limit = limit, .keep = true};
}

static int digit_value(char c, unsigned base) {
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    return value < (int)base ? value : -1;
}

static bool read_digits(const char **text, unsigned base, unsigned most, uint64_t *number) {
    uint64_t sum = 0;
    unsigned digits = 0;
    for (; digits <= most && digit_value(**text, base) >= 0; digits++) {
        sum = sum * base + (uint64_t)digit_value(**text, base);
        (*text)++;
    }
    *number = sum;
    return digits > 0 && digits <= most;
}

static bool read_decimal(const char **text, uint64_t *number) {
    return read_digits(text, 10, DECIMAL_DIGITS, number);
}

static bool is_decimal(const char *text, uint64_t *number) {
    return read_decimal(&text, number) && *text == '\0';
}

static fed_status take_status_line(fedclient_http1 *h) {
    const char *text = h->line;
    uint64_t minor = 0, status = 0;
    bool sound = strncmp(text, "HTTP/1.", 7) == 0;
    text += sound ? 7 : 0;
    sound = sound && read_digits(&text, 10, 1, &minor) && *text++ == ' ' &&
            read_digits(&text, 10, 3, &status) && (*text == ' ' || *text == '\0');
    if (!sound || status < 100) {
        return refuse(h, "it does not begin with a line such as HTTP/1.1 200 OK");
    }
    h->status = (int)status;
    h->keep = minor >= 1;
    h->has_length = h->is_chunked = h->has_range = false;
    h->state = FEDCLIENT_HTTP1_HEADER;
    return FED_OK;
}

static fed_status take_length(fedclient_http1 *h, const char *value) {
    if (h->has_length || h->is_chunked) {
        return refuse(h, "it says twice how long its body is");
    }
    h->has_length = true;
    return is_decimal(value, &h->length) ? FED_OK : refuse(h, "its Content-Length is not a number");
}

static fed_status take_coding(fedclient_http1 *h, const char *value) {
    if (h->has_length || h->is_chunked) {
        return refuse(h, "it says twice how long its body is");
    }
    if (strcasecmp(value, "chunked") != 0 || !h->keep) {
        return refuse(h, "its Transfer-Encoding is another than chunked");
    }
    h->is_chunked = true;
    return FED_OK;
}

/** Read the header Connection, a list such as "keep-alive, close". */
static fed_status take_connection(fedclient_http1 *h, const char *value) {
    while (*value != '\0') {
        size_t len = strcspn(value, ", \t");
        if (len == 5 && strncasecmp(value, "close", 5) == 0) {
            h->keep = false;
        }
        value += len;
        value += strspn(value, ", \t");
    }
    return FED_OK;
}

static fed_status take_retry(fedclient_http1 *h, const char *value) {
    uint64_t seconds = 0;
    if (is_decimal(value, &seconds)) { /* a date is ignored, since it needs a correct clock */
        h->retry_after_s = seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
    }
    return FED_OK;
}

static fed_status take_tag(fedclient_http1 *h, const char *value) {
    if (value[0] == '"' && strspn(value + 1, "0123456789abcdef") == 16 && value[17] == '"') {
        h->tag = strtoull(value + 1, NULL, 16);
    }
    return FED_OK;
}

/** Read the header Content-Range, such as "bytes 5-9/20". The total is "*" if it is unknown. */
static fed_status take_range(fedclient_http1 *h, const char *value) {
    uint64_t last = 0;
    if (strncasecmp(value, "bytes ", 6) != 0) {
        return FED_OK;
    }
    value += 6;
    h->has_range = read_decimal(&value, &h->range_begin) && *value++ == '-' &&
                   read_decimal(&value, &last) && *value++ == '/' &&
                   (is_decimal(value, &h->range_total) || strcmp(value, "*") == 0);
    return FED_OK;
}

typedef struct header {
    const char *name;
    fed_status (*take)(fedclient_http1 *h, const char *value);
} header;

static const header headers[] = {{"Content-Length", take_length},
                                 {"Transfer-Encoding", take_coding},
                                 {"Connection", take_connection},
                                 {"Retry-After", take_retry},
                                 {"ETag", take_tag},
                                 {"Content-Range", take_range}};

static const header *find_header(const char *name, size_t len) {
    for (size_t k = 0; k < sizeof headers / sizeof headers[0]; k++) {
        if (strlen(headers[k].name) == len && strncasecmp(headers[k].name, name, len) == 0) {
            return &headers[k];
        }
    }
    return NULL;
}

static fed_status take_header(fedclient_http1 *h) {
    /* The characters of a token (RFC 9110, section 5.6.2). */
    const size_t len = strspn(h->line, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (len == 0 || h->line[len] != ':') {
        return refuse(h, "a line of its head is not \"name: value\"");
    }
    const header *known = h->state == FEDCLIENT_HTTP1_HEADER ? find_header(h->line, len) : NULL;
    if (known == NULL) {
        return FED_OK;
    }
    if (h->line_cut) {
        return refuse(h, "a header that matters is longer than a line may be");
    }
    const char *value = h->line + len + 1;
    value += strspn(value, " \t");
    for (size_t end = h->line_len; end > 0 && strchr(" \t", h->line[end - 1]) != NULL; end--) {
        h->line[end - 1] = '\0';
    }
    return known->take(h, value);
}

static fed_status take_interim(fedclient_http1 *h) {
    if (h->status == 101 || h->has_length || h->is_chunked) {
        return refuse(h, "it is an interim answer (1xx) that the request did not ask for");
    }
    h->continued = h->continued || h->status == 100;
    h->status = 0;
    h->retry_after_s = 0;
    h->tag = 0;
    h->state = FEDCLIENT_HTTP1_STATUS_LINE;
    return FED_OK;
}

static fed_status take_head_end(fedclient_http1 *h) {
    if (h->status < 200) {
        return take_interim(h);
    }
    if (h->status == 206 && h->has_range) {
        h->begin = h->range_begin;
        h->total = h->range_total;
    } else if (h->status == 200 && h->has_length) {
        h->total = h->length;
    }
    if (h->status == 204 || h->status == 304) {
        h->state = FEDCLIENT_HTTP1_DONE;
        return FED_OK;
    }
    if (h->is_chunked) {
        h->head_len = 0;
        h->state = FEDCLIENT_HTTP1_CHUNK_SIZE;
        return FED_OK;
    }
    h->keep = h->keep && h->has_length;
    h->left = h->length;
    h->state = h->has_length ? FEDCLIENT_HTTP1_BODY : FEDCLIENT_HTTP1_BODY_TO_END;
    if (h->has_length && h->left == 0) {
        h->state = FEDCLIENT_HTTP1_DONE;
    }
    return FED_OK;
}

/** Read the line before a chunk, such as "1f;extension": its size in hex. */
static fed_status take_chunk_size(fedclient_http1 *h) {
    const char *text = h->line;
    if (!read_digits(&text, 16, HEX_DIGITS, &h->left) || (*text != '\0' && *text != ';')) {
        return refuse(h, "a chunk of its body begins without a size");
    }
    h->state = h->left > 0 ? FEDCLIENT_HTTP1_CHUNK : FEDCLIENT_HTTP1_TRAILER;
    return FED_OK;
}

static fed_status take_chunk_end(fedclient_http1 *h) {
    if (h->line_len > 0) {
        return refuse(h, "a chunk of its body is longer than its size");
    }
    h->head_len = 0; /* the limit of a head also holds for each chunk's line */
    h->state = FEDCLIENT_HTTP1_CHUNK_SIZE;
    return FED_OK;
}

static fed_status take_line(fedclient_http1 *h) {
    switch (h->state) {
    case FEDCLIENT_HTTP1_STATUS_LINE:
        return take_status_line(h);
    case FEDCLIENT_HTTP1_HEADER:
        return h->line_len > 0 ? take_header(h) : take_head_end(h);
    case FEDCLIENT_HTTP1_CHUNK_SIZE:
        return take_chunk_size(h);
    case FEDCLIENT_HTTP1_CHUNK_END:
        return take_chunk_end(h);
    default: /* trailers are ignored */
        if (h->line_len > 0) {
            return take_header(h);
        }
        h->state = FEDCLIENT_HTTP1_DONE;
        return FED_OK;
    }
}

static fed_status take_line_byte(fedclient_http1 *h, char c) {
    const unsigned char code = (unsigned char)c;
    if (++h->head_len > FEDCLIENT_HTTP1_HEAD) {
        return refuse(h, "its head is longer than 16384 bytes");
    }
    if (h->after_return != (c == '\n')) {
        return refuse(h, "a line of its head does not end with CR and LF");
    }
    if (c == '\n') {
        h->line[h->line_len] = '\0';
        FED_TRY(take_line(h));
        h->line_len = 0;
        h->after_return = h->line_cut = false;
    } else if (c == '\r') {
        h->after_return = true;
    } else if ((code < ' ' && c != '\t') || code == 0x7F) {
        return refuse(h, "its head holds a control character");
    } else if (h->line_len + 1 < sizeof h->line) {
        h->line[h->line_len++] = c;
    } else {
        h->line_cut = true;
    }
    return FED_OK;
}

static bool in_body(const fedclient_http1 *h) {
    return h->state == FEDCLIENT_HTTP1_BODY || h->state == FEDCLIENT_HTTP1_BODY_TO_END ||
           h->state == FEDCLIENT_HTTP1_CHUNK;
}

static fed_status take_body(fedclient_http1 *h, const char *data, size_t len, size_t *used) {
    const bool to_end = h->state == FEDCLIENT_HTTP1_BODY_TO_END;
    const size_t take = to_end || h->left > len ? len : (size_t)h->left;
    const uint64_t wanted = to_end ? take : h->left;
    if (h->answer->len > h->limit || wanted > h->limit - h->answer->len) {
        return FED_ERANGE;
    }
    if (h->state == FEDCLIENT_HTTP1_BODY) {
        (void)fed_writer_reserve(h->answer, (size_t)h->left);
    }
    fed_write_bytes(h->answer, data, take);
    FED_TRY(h->answer->status);
    *used = take;
    h->left -= to_end ? 0 : take;
    if (!to_end && h->left == 0) {
        h->state =
            h->state == FEDCLIENT_HTTP1_CHUNK ? FEDCLIENT_HTTP1_CHUNK_END : FEDCLIENT_HTTP1_DONE;
    }
    return FED_OK;
}

fed_status fedclient_http1_take(fedclient_http1 *h, const void *data, size_t len, size_t *used) {
    const char *bytes = data;
    size_t at = 0;
    while (at < len && h->state != FEDCLIENT_HTTP1_DONE) {
        size_t taken = 1;
        FED_TRY(in_body(h) ? take_body(h, bytes + at, len - at, &taken)
                           : take_line_byte(h, bytes[at]));
        at += taken;
    }
    *used = at;
    return FED_OK;
}

fed_status fedclient_http1_end(fedclient_http1 *h) {
    if (h->state == FEDCLIENT_HTTP1_BODY_TO_END) {
        h->state = FEDCLIENT_HTTP1_DONE;
    }
    return h->state == FEDCLIENT_HTTP1_DONE
               ? FED_OK
               : refuse(h, "the connection ended before the answer was complete");
}
