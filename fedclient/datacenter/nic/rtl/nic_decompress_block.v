// Decode one value of a burst: a tag and its bytes become a float (INCEPTIONN, algorithm 3).
// SPDX-License-Identifier: Apache-2.0

// Combinational. Ports:
//   tag     0: no bytes; 1: one byte; 2: two bytes; 3: four bytes
//   bytes   the payload, first byte lowest; bytes that the tag does not name may be anything
//   value   an IEEE 754 binary32
// A payload of magnitude 0, which the paper leaves open, is +0. So compressing a value a second
// time does not change it.
module nic_decompress_block (
    input  wire [ 1:0] tag,
    input  wire [31:0] bytes,
    output wire [31:0] value
);
    wire        sign = tag[1] ? bytes[15] : bytes[7];
    wire [14:0] fixed = tag[1] ? bytes[14:0] : {bytes[6:0], 8'd0};

    // Shift the leading one to the top, by 8, 4, 2 and 1 places.
    wire        none8 = fixed[14:7] == 8'd0;
    wire [14:0] by8 = none8 ? {fixed[6:0], 8'd0} : fixed;
    wire        none4 = by8[14:11] == 4'd0;
    wire [14:0] by4 = none4 ? {by8[10:0], 4'd0} : by8;
    wire        none2 = by4[14:13] == 2'd0;
    wire [14:0] by2 = none2 ? {by4[12:0], 2'd0} : by4;
    wire        none1 = !by2[14];
    wire [14:0] by1 = none1 ? {by2[13:0], 1'd0} : by2;

    wire [ 7:0] exponent = 8'd126 - {4'd0, none8, none4, none2, none1};
    wire [30:0] magnitude = by1[14] ? {exponent, by1[13:0], 9'd0} : 31'd0;

    assign value = tag == 2'd0 ? 32'd0 : tag == 2'd3 ? bytes : {sign && by1[14], magnitude};
endmodule
