// The compressor: turns beats of floats into bursts without gaps (INCEPTIONN, figure 9).
// SPDX-License-Identifier: Apache-2.0

// AXI-stream in and out, LANES floats in a beat; the format needs eight, that is 256 bit. Byte 0 of
// a beat is tdata[7:0]. An input packet is one float or more. All its beats are full but the last,
// whose tkeep names whole floats, from the lowest lane on. An output packet is its bursts without
// gaps, each with LANES / 4 bytes of tags and then the payloads; its last beat may be partial.
//   m_bytes     with m_tlast: number of bytes of the output packet, modulo 2^16
// Any bits are allowed: infinities and NaNs travel as they are, with tag 3.
//
// Four stages, each with a register: compression blocks; the shifter tree without its root; the
// tree's root, and the tags; alignment. Latency four cycles. Throughput: a beat in each cycle while
// no burst has more bytes than a beat, over the borders of packets too. Incompressible floats
// become 34 bytes for 32 and take 17 cycles for 16 beats: as many as there are output beats.
module nic_compress #(
    parameter E = 10,                           // magnitudes under 2^-E become 0; 1 to 15
    parameter LANES = 8                         // 8; 4 in proofs
) (
    input  wire                clk,
    input  wire                rst,             // synchronous

    input  wire [32*LANES-1:0] s_tdata,
    input  wire [ 4*LANES-1:0] s_tkeep,
    input  wire                s_tlast,
    input  wire                s_tvalid,
    output wire                s_tready,

    output wire [32*LANES-1:0] m_tdata,
    output wire [ 4*LANES-1:0] m_tkeep,
    output wire                m_tlast,
    output wire [        15:0] m_bytes,
    output wire                m_tvalid,
    input  wire                m_tready
);
    localparam BEAT = 4 * LANES;
    localparam TAGS = LANES / 4;                // bytes of a burst's tags
    localparam BURST = TAGS + BEAT;             // most bytes of a burst

    // Stage 1: compression blocks. Lanes that tkeep leaves out are zeros: tag 0.
    wire [ 2*LANES-1:0] block_tags;
    wire [32*LANES-1:0] block_bytes;
    genvar lane;
    generate
        for (lane = 0; lane < LANES; lane = lane + 1) begin : blocks
            nic_compress_block #(.E(E)) block (
                .value(s_tdata[32*lane+:32] & {32{&s_tkeep[4*lane+:4]}}),
                .tag  (block_tags[2*lane+:2]),
                .bytes(block_bytes[32*lane+:32])
            );
        end
    endgenerate

    reg  [ 2*LANES-1:0] tags1;
    reg  [32*LANES-1:0] bytes1;
    reg                 last1, valid1;
    wire                ready1;
    assign s_tready = ready1 || !valid1;

    // Stage 2: join lanes to pairs, and pairs to fours.
    wire [ 6*LANES-1:0] sizes;
    wire [32*LANES-1:0] pairs, fours;
    wire [ 3*LANES-1:0] pair_lengths;
    wire [ 6*LANES/4-1:0] four_lengths;
    genvar node;
    generate
        for (lane = 0; lane < LANES; lane = lane + 1) begin : size
            wire [1:0] tag = tags1[2*lane+:2];
            assign sizes[6*lane+:6] = {3'd0, tag == 2'd3, tag == 2'd2, tag == 2'd1};
        end
        for (node = 0; node < LANES / 2; node = node + 1) begin : pair
            nic_join #(.BYTES(4)) join_two (
                .low       (bytes1[64*node+:32]),
                .low_length(sizes[12*node+:6]),
                .high      (bytes1[64*node+32+:32]),
                .joined    (pairs[64*node+:64])
            );
            assign pair_lengths[6*node+:6] = sizes[12*node+:6] + sizes[12*node+6+:6];
        end
        for (node = 0; node < LANES / 4; node = node + 1) begin : four
            nic_join #(.BYTES(8)) join_two (
                .low       (pairs[128*node+:64]),
                .low_length(pair_lengths[12*node+:6]),
                .high      (pairs[128*node+64+:64]),
                .joined    (fours[128*node+:128])
            );
            assign four_lengths[6*node+:6] = pair_lengths[12*node+:6] + pair_lengths[12*node+6+:6];
        end
    endgenerate

    reg  [32*LANES-1:0] bytes2;
    reg  [6*LANES/4-1:0] lengths2;
    reg  [ 2*LANES-1:0] tags2;
    reg                 last2, valid2;
    wire                ready2;
    assign ready1 = ready2 || !valid2;

    // Stage 3: the tree's root, and the tags in front of the payload.
    wire [32*LANES-1:0] payload;
    wire [         5:0] payload_length;
    generate
        if (LANES == 8) begin : root
            nic_join #(.BYTES(16)) join_two (
                .low       (bytes2[127:0]),
                .low_length(lengths2[5:0]),
                .high      (bytes2[255:128]),
                .joined    (payload)
            );
            assign payload_length = lengths2[5:0] + lengths2[11:6];
        end else begin : root
            assign payload = bytes2;
            assign payload_length = lengths2;
        end
    endgenerate

    reg  [ 8*BURST-1:0] burst;
    reg  [         5:0] length;                 // bytes of the burst, TAGS to BURST
    reg                 last3, valid3;
    wire                ready3;
    assign ready2 = ready3 || !valid3;

    always @(posedge clk) begin
        if (s_tready) begin
            tags1 <= block_tags;
            bytes1 <= block_bytes;
            last1 <= s_tlast;
            valid1 <= s_tvalid;
        end
        if (ready1) begin
            tags2 <= tags1;
            bytes2 <= fours;
            lengths2 <= four_lengths;
            last2 <= last1;
            valid2 <= valid1;
        end
        if (ready2) begin
            burst <= {payload, tags2};
            length <= payload_length + TAGS[5:0];
            last3 <= last2;
            valid3 <= valid2;
        end
        if (rst) begin
            valid1 <= 1'b0;
            valid2 <= 1'b0;
            valid3 <= 1'b0;
        end
    end

    nic_align #(.BEAT(BEAT), .MOST(BURST)) align (
        .clk(clk), .rst(rst),
        .s_string(burst), .s_length(length), .s_last(last3), .s_valid(valid3), .s_ready(ready3),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_bytes(m_bytes),
        .m_tvalid(m_tvalid), .m_tready(m_tready)
    );
endmodule
