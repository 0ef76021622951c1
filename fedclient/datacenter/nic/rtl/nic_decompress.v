// The decompressor: bursts without gaps become beats of floats (INCEPTIONN, figure 10).
// SPDX-License-Identifier: Apache-2.0

// AXI-stream in and out, WIDTH bit: 256, 128 or 64, that is 8, 4 or 2 floats a beat. Byte 0 of a
// beat is tdata[7:0]. A packet in is bursts of eight values, the last of up to eight. All its beats
// are full but the last, whose tkeep names bytes from the lowest on. A packet out has s_count
// floats.
//   s_count     how many values the packet has; read at its first beat
//   m_error     with m_tlast: the packet was not the bursts of s_count values, 1 or more. It had
//               fewer or more bytes, or a tag that is not 0 past the last value. The floats of such
//               a packet are arbitrary, and it may end early; the next packet is not harmed.
//
// Four stages, each with a register: burst buffer; tag decoder; reversed shifter tree;
// decompression blocks. Latency four cycles. Throughput: a beat out in each cycle while no burst
// has more than 32 bytes, over the borders of packets too. At 34 bytes a burst it is 16 beats in 17
// cycles: as many as the beats that come.
//
// The burst buffer shows the tag decoder 65 bytes: two beats, and the first byte of the beat that
// waits at the input. With the paper's 64 bytes a burst of 34 that begins at the last byte of a
// beat would never be whole.
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
    localparam BEAT = 4 * LANES;                // bytes of a beat
    localparam [6:0] BEAT7 = BEAT[6:0];
    localparam PARTS = 8 / LANES;               // a burst of eight values takes so many cycles

    // ---- Stage 1: the burst buffer. head is the beat in which the next burst begins.
    reg  [WIDTH-1:0] head, next;
    reg  [      6:0] head_bytes, next_bytes;
    reg              head_last, next_last;
    reg  [     15:0] head_count, next_count;
    reg              head_valid, next_valid;
    reg  [      6:0] place;                     // of the burst in head; BEAT: all of it is used
    reg              fresh;                     // at a packet's begin
    reg  [     15:0] values_left;
    reg              drain;                     // drop beats up to the packet's last

    // How many bytes s_tkeep names.
    reg  [      6:0] s_bytes;
    integer          i;
    always @* begin
        s_bytes = 7'd0;
        for (i = 0; i < BEAT; i = i + 1) s_bytes = s_bytes + {6'd0, s_tkeep[i]};
    end

    // ---- Stage 2: the tag decoder. A burst begins with its tags; its later parts keep them.
    wire [2*WIDTH+7:0] window = {s_tdata[7:0], next, head};
    wire [2*WIDTH+7:0] at_place = window >> {place & (BEAT7 - 7'd1), 3'd0};
    reg  [      1:0] part;
    reg  [     15:0] later_tags;
    wire             first_part = PARTS == 1 || part == 2'd0;
    wire [     15:0] tags = first_part ? at_place[15:0] : later_tags;
    wire [WIDTH-1:0] payload = first_part ? at_place[16+:WIDTH] : at_place[0+:WIDTH];
    wire             unused = &{1'b0, at_place[2*WIDTH+7:WIDTH+16], pair_lengths};

    reg  [      6:0] burst_bytes;
    integer          lane_i;
    always @* begin
        burst_bytes = first_part ? 7'd2 : 7'd0;
        for (lane_i = 0; lane_i < LANES; lane_i = lane_i + 1)
            burst_bytes = burst_bytes + {4'd0, &tags[2*lane_i+:2],
                tags[2*lane_i+:2] == 2'd2, tags[2*lane_i+:2] == 2'd1};
    end

    // The end of what is known of the packet, counted from head's first byte, as place is.
    wire [      6:0] end_of_next = next_last ? BEAT7 + next_bytes
                                 : 2 * BEAT7 + {6'd0, s_tvalid};
    wire [      6:0] end_known = head_last || !next_valid ? head_bytes : end_of_next;
    wire             end_at_input = !next_last && s_tvalid && s_tlast && !s_tkeep[1];
    wire             end_seen = head_last || (next_valid && (next_last || end_at_input));
    wire [      6:0] place_after = place + burst_bytes;
    wire             whole = place_after <= end_known;

    wire [     15:0] values = fresh ? head_count : values_left;
    wire             ends = values <= LANES[15:0];
    reg  [     15:0] past_last;                 // the tags of lanes past the last value
    reg  [LANES-1:0] lanes_used;
    always @* begin
        for (i = 0; i < 8; i = i + 1) past_last[2*i+:2] = {2{ends && i >= {28'd0, values[3:0]}}};
        for (i = 0; i < LANES; i = i + 1) lanes_used[i] = !past_last[2*i];
    end

    wire             ready2;
    wire             step = head_valid && !drain && (whole || end_seen) && ready2;
    wire             clean = whole && end_seen && place_after == end_known && values != 16'd0
                           && (tags & past_last) == 16'd0;
    wire             over = ends || !whole;     // the packet out ends with this step
    wire             good_end = step && over && clean;
    wire             bad_end = step && over && !clean;

    // How many beats leave the buffer. A good end takes all that is there of its packet, even the
    // beat at the input. A step within a packet never takes the packet's last beat: the next step
    // needs it to see the end.
    wire             drop_one = drain ? head_valid : step && !bad_end
                              && (over || (place_after >= BEAT7 && !head_last));
    wire             drop_two = step && !bad_end && !head_last
                              && (over || (place_after >= 2 * BEAT7 && !next_last));
    wire             drop_input = good_end && !head_last && !next_last;
    wire             head_free = !head_valid || drop_one;
    wire             next_free = !next_valid || head_free;
    wire             to_head = drop_two || (head_free && !next_valid);
    assign s_tready = next_free;

    always @(posedge clk) begin
        if (to_head) begin
            head <= s_tdata;
            head_bytes <= s_bytes;
            head_last <= s_tlast;
            head_count <= s_count;
            head_valid <= s_tvalid && !drop_input;
            next_valid <= 1'b0;
        end else begin
            if (head_free) begin
                head <= next;
                head_bytes <= next_bytes;
                head_last <= next_last;
                head_count <= next_count;
                head_valid <= 1'b1;
            end
            if (next_free) begin
                next <= s_tdata;
                next_bytes <= s_bytes;
                next_last <= s_tlast;
                next_count <= s_count;
                next_valid <= s_tvalid;
            end
        end
        if (drain) begin
            if (head_valid && head_last) drain <= 1'b0;
        end else if (step) begin
            drain <= bad_end;
            fresh <= over;
            values_left <= values - LANES[15:0];
            place <= over ? 7'd0 : drop_two ? place_after - 2 * BEAT7
                   : drop_one ? place_after - BEAT7 : place_after;
            part <= over || PARTS == 1 || part == PARTS[1:0] - 2'd1 ? 2'd0 : part + 2'd1;
            later_tags <= tags >> 2 * LANES;
        end
        if (rst) begin
            head_valid <= 1'b0;
            next_valid <= 1'b0;
            drain <= 1'b0;
            fresh <= 1'b1;
            place <= 7'd0;
            part <= 2'd0;
        end
    end

    reg  [  WIDTH-1:0] payload2;
    reg  [2*LANES-1:0] tags2;
    reg  [  LANES-1:0] used2;
    reg                last2, error2, valid2;
    wire               ready3;
    assign ready2 = ready3 || !valid2;

    // ---- Stage 3: the reversed shifter tree, from one string to a string for each lane.
    wire [  WIDTH-1:0] fours, pairs, singles;
    wire [6*LANES-1:0] sizes;
    wire [3*LANES-1:0] pair_lengths;
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

    // ---- Stage 4: decompression blocks.
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
        if (ready2) begin
            payload2 <= payload;
            tags2 <= tags[2*LANES-1:0];
            used2 <= lanes_used;
            last2 <= over;
            error2 <= !clean;
            valid2 <= step;
        end
        if (ready3) begin
            bytes3 <= singles;
            tags3 <= tags2;
            used3 <= used2;
            last3 <= last2;
            error3 <= error2 && last2;
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
            valid2 <= 1'b0;
            valid3 <= 1'b0;
            m_tvalid <= 1'b0;
        end
    end
endmodule
