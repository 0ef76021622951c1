// The laws of the codec: yosys' sat proves each assertion for all 2^32 input values.
// SPDX-License-Identifier: Apache-2.0

// A value that crosses the network is compressed, then decompressed. `once` is the value after one
// such hop, `twice` after two. E: magnitudes below 2^-E become 0; 1 to 15.
module nic_laws #(
    parameter E = 10
) (
    input wire [31:0] value
);
    wire [ 1:0] tag, second_tag;
    wire [31:0] bytes, second_bytes, once, twice;

    nic_compress_block #(.E(E)) compress_1 (.value(value), .tag(tag), .bytes(bytes));
    nic_decompress_block decompress_1 (.tag(tag), .bytes(bytes), .value(once));
    nic_compress_block #(.E(E)) compress_2 (.value(once), .tag(second_tag), .bytes(second_bytes));
    nic_decompress_block decompress_2 (.tag(second_tag), .bytes(second_bytes), .value(twice));

    // The magnitude times 2^38, computed exactly for magnitudes from 2^-15 to below 1.
    function [38:0] fixed(input [31:0] x);
        fixed = x[30:0] == 31'd0 ? 39'd0 : {15'd0, 1'b1, x[22:0]} << (x[30:23] - 8'd112);
    endfunction
    wire [38:0] lost = fixed(value) - fixed(once);

    always @* begin
        // The classes, by comparing magnitudes as numbers.
        assert ((tag == 2'd0) == (value[30:0] < {8'd127 - E[7:0], 23'd0}));
        assert ((tag <= 2'd1) == (value[30:0] < {8'd127 - E[7:0] / 8'd2, 23'd0}));
        assert ((tag == 2'd3) == (value[30:0] >= {8'd127, 23'd0}));
        // A sign is kept, or the value is +0. No magnitude grows.
        assert (once == 32'd0 || once[31] == value[31]);
        assert (once[30:0] <= value[30:0]);
        // A second hop changes nothing.
        assert (twice == once);
        // What values of class (tag) 0 to 3 lose: all, less than 2^-7, less than 2^-15, nothing.
        if (tag == 2'd0) assert (once == 32'd0);
        if (tag == 2'd1) assert (lost < 39'd1 << 31);
        if (tag == 2'd2) assert (lost < 39'd1 << 23);
        if (tag == 2'd3) assert (once == value);
        // Bytes that the tag does not count are 0.
        if (tag <= 2'd2) assert (bytes[31:16] == 16'd0);
        if (tag <= 2'd1) assert (bytes[15:8] == 8'd0);
        if (tag == 2'd0) assert (bytes[7:0] == 8'd0);
    end
endmodule
