// Encode one value of a burst: a float becomes a tag and 0 to 4 bytes (INCEPTIONN, algorithm 2).
// SPDX-License-Identifier: Apache-2.0

// Combinational. Ports:
//   value   an IEEE 754 binary32, any bits
//   tag     0: no bytes; 1: one byte; 2: two bytes; 3: four bytes, the value itself
//   bytes   the payload, first byte lowest; bytes that the tag does not name are 0
// Magnitudes under 2^-E become 0. E: 1 to 15. The format is in docs/codec-formats.md, inceptionn.
module nic_compress_block #(
    parameter E = 10
) (
    input  wire [31:0] value,
    output wire [ 1:0] tag,
    output wire [31:0] bytes
);
    localparam LEAST = 127 - E;                 // exponent of 2^-E
    localparam HALF = 127 - E / 2;              // exponent of 2^-(E div 2): least value of tag 2
    localparam ONE = 127;                       // exponent of 1

    wire        sign = value[31];
    wire [ 7:0] exponent = value[30:23];

    // The magnitude times 2^15, without its fraction. The shift only matters for tags 1 and 2,
    // where the magnitude is from 2^-15 to below 1 and the shift is 0 to 14.
    wire [ 3:0] shift = 4'd14 - exponent[3:0];
    wire [14:0] fixed = {1'b1, value[22:9]} >> shift;

    assign tag = exponent < LEAST[7:0] ? 2'd0
               : exponent < HALF[7:0] ? 2'd1
               : exponent < ONE[7:0] ? 2'd2
               : 2'd3;
    assign bytes = tag == 2'd0 ? 32'd0
                 : tag == 2'd1 ? {24'd0, sign, fixed[14:8]}
                 : tag == 2'd2 ? {16'd0, sign, fixed}
                 : value;
endmodule
