// The decompressor: turns bursts without gaps into beats of floats (INCEPTIONN, figure 10).
// SPDX-License-Identifier: Apache-2.0

// AXI-stream in and out, WIDTH bit: 256, 128 or 64, that is 8, 4 or 2 floats in a beat. Byte 0 of a
// beat is tdata[7:0]. An input packet is bursts of eight values; the last may have fewer. All its
// beats are full but the last, whose tkeep names bytes from the lowest on. An output packet has
// s_count floats.
//   s_count     how many values the packet has; read at its first beat
//   m_error     with m_tlast: the packet was not the bursts of s_count values. s_count was 0, or
//               the packet had fewer or more bytes, or a tag that is not 0 past the last value.
//               The floats of such a packet are arbitrary, and it may end early. The next packet
//               is not affected.
//
// Four stages, each with a register: burst buffer; tag decoder; reversed shifter tree;
// decompression blocks. Latency four cycles. Throughput: a beat out in each cycle while no burst
// has more than 32 bytes, over the borders of packets too. With bursts of 34 bytes it is 16 beats
// in 17 cycles: as many as there are input beats.
module nic_decompress #(
    parameter WIDTH = 256
) (
    input  wire               clk,
    input  wire               rst,              // synchronous

    input  wire [  WIDTH-1:0] s_tdata,
    input  wire [WIDTH/8-1:0] s_tkeep,
    input  wire               s_tlast,
    input  wire [       15:0] s_count,
    input  wire               s_tvalid,
    output wire               s_tready,

    output reg  [  WIDTH-1:0] m_tdata,
    output reg  [WIDTH/8-1:0] m_tkeep,
    output reg                m_tlast,
    output reg                m_error,
    output reg                m_tvalid,
    input  wire               m_tready
);
    localparam LANES = WIDTH / 32;

    wire [  WIDTH-1:0] payload2;
    wire [2*LANES-1:0] tags2;
    wire [  LANES-1:0] used2;
    wire               last2, error2, valid2, ready3;
    nic_burst_buffer #(.WIDTH(WIDTH)) buffer (
        .clk(clk), .rst(rst),
        .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_count(s_count),
        .s_tvalid(s_tvalid), .s_tready(s_tready),
        .m_payload(payload2), .m_tags(tags2), .m_used(used2), .m_last(last2), .m_error(error2),
        .m_valid(valid2), .m_ready(ready3)
    );

    // Stage 3: the reversed shifter tree splits one string of bytes into one for each lane.
    wire [  WIDTH-1:0] fours, pairs, singles;
    wire [6*LANES-1:0] sizes;
    wire [3*LANES-1:0] pair_lengths;
    wire               unused = &{1'b0, pair_lengths};  // not all lengths are read
    genvar             lane, node;
    generate
        for (lane = 0; lane < LANES; lane = lane + 1) begin : size
            wire [1:0] tag = tags2[2*lane+:2];
            assign sizes[6*lane+:6] = {3'd0, tag == 2'd3, tag == 2'd2, tag == 2'd1};
        end
        for (node = 0; node < LANES / 2; node = node + 1) begin : pair
            assign pair_lengths[6*node+:6] = sizes[12*node+:6] + sizes[12*node+6+:6];
            nic_split #(.BYTES(4)) split (
                .joined    (pairs[64*node+:64]),
                .low_length(sizes[12*node+:6]),
                .low       (singles[64*node+:32]),
                .high      (singles[64*node+32+:32])
            );
        end
        if (LANES == 8) begin : root
            nic_split #(.BYTES(16)) split (
                .joined    (payload2),
                .low_length(pair_lengths[5:0] + pair_lengths[11:6]),
                .low       (fours[127:0]),
                .high      (fours[255:128])
            );
        end else begin : root
            assign fours = payload2;
        end
        if (LANES >= 4) begin : four
            for (node = 0; node < LANES / 4; node = node + 1) begin : split_four
                nic_split #(.BYTES(8)) split (
                    .joined    (fours[128*node+:128]),
                    .low_length(pair_lengths[12*node+:6]),
                    .low       (pairs[128*node+:64]),
                    .high      (pairs[128*node+64+:64])
                );
            end
        end else begin : four
            assign pairs = fours;
        end
    endgenerate

    reg  [  WIDTH-1:0] bytes3;
    reg  [2*LANES-1:0] tags3;
    reg  [  LANES-1:0] used3;
    reg                last3, error3, valid3;
    wire               out_free = m_tready || !m_tvalid;
    assign ready3 = out_free || !valid3;

    wire [  WIDTH-1:0] floats;
    wire [WIDTH/8-1:0] keep;
    generate
        for (lane = 0; lane < LANES; lane = lane + 1) begin : blocks
            nic_decompress_block block (
                .tag  (tags3[2*lane+:2]),
                .bytes(bytes3[32*lane+:32]),
                .value(floats[32*lane+:32])
            );
            assign keep[4*lane+:4] = {4{used3[lane]}};
        end
    endgenerate

    always @(posedge clk) begin
        if (ready3) begin
            bytes3 <= singles;
            tags3 <= tags2;
            used3 <= used2;
            last3 <= last2;
            error3 <= error2;
            valid3 <= valid2;
        end
        if (out_free) begin
            m_tdata <= floats;
            m_tkeep <= keep;
            m_tlast <= last3;
            m_error <= error3;
            m_tvalid <= valid3;
        end
        if (rst) begin
            valid3 <= 1'b0;
            m_tvalid <= 1'b0;
        end
    end
endmodule
