// The burst buffer and the tag decoder of INCEPTIONN's figure 10: split beats into parts of bursts.
// SPDX-License-Identifier: Apache-2.0

// The input is that of nic_decompress. The output has, in each cycle, the data of LANES floats:
//   m_payload   their bytes, without gaps, from the lowest byte on; higher bytes are arbitrary
//   m_tags      their tags
//   m_used      which lanes have a value
//   m_last      the packet ends
//   m_error     with m_last: the packet was not the bursts of s_count values
// One register at the output, and two beats in the buffer.
//
// With WIDTH 256 the tag decoder sees 65 bytes: the buffer's two beats, and the first byte of the
// beat that waits at the input. With the paper's 64 bytes a burst of 34 that begins at the last
// byte of a beat would never be whole.
module nic_burst_buffer #(
    parameter WIDTH = 256                       // 256, 128 or 64
) (
    input  wire                clk,
    input  wire                rst,             // synchronous

    input  wire [   WIDTH-1:0] s_tdata,
    input  wire [ WIDTH/8-1:0] s_tkeep,
    input  wire                s_tlast,
    input  wire [        15:0] s_count,
    input  wire                s_tvalid,
    output wire                s_tready,

    output reg  [   WIDTH-1:0] m_payload,
    output reg  [WIDTH/16-1:0] m_tags,
    output reg  [WIDTH/32-1:0] m_used,
    output reg                 m_last,
    output reg                 m_error,
    output reg                 m_valid,
    input  wire                m_ready
);
    localparam LANES = WIDTH / 32;
    localparam BEAT = 4 * LANES;
    localparam [6:0] BEAT7 = BEAT[6:0];
    localparam PARTS = 8 / LANES;               // cycles for a burst of eight values

    reg  [WIDTH-1:0] head, next;
    reg  [      6:0] head_bytes, next_bytes;
    reg              head_last, next_last;
    reg  [     15:0] head_count, next_count;
    reg              head_valid, next_valid;
    reg  [      6:0] place;                     // where the burst begins; BEAT: head is used up
    reg              fresh;                     // the next burst is a packet's first
    reg  [     15:0] values_left;
    reg              drain;                     // drop beats up to the packet's last one

    reg  [      6:0] s_bytes;
    integer          i;
    always @* begin
        s_bytes = 7'd0;
        for (i = 0; i < BEAT; i = i + 1) s_bytes = s_bytes + {6'd0, s_tkeep[i]};
    end

    // The tag decoder. A burst begins with its tags, which are kept for its later parts.
    wire [2*WIDTH+7:0] window = {s_tdata[7:0], next, head};
    wire [2*WIDTH+7:0] at_place = window >> {place & (BEAT7 - 7'd1), 3'd0};
    reg  [      1:0] part;
    reg  [     15:0] later_tags;
    wire             first_part = PARTS == 1 || part == 2'd0;
    wire [     15:0] tags = first_part ? at_place[15:0] : later_tags;
    wire [WIDTH-1:0] payload = first_part ? at_place[16+:WIDTH] : at_place[0+:WIDTH];
    wire             unused = &{1'b0, at_place[2*WIDTH+7:WIDTH+16]};

    reg  [      6:0] burst_bytes;
    integer          lane_i;
    always @* begin
        burst_bytes = first_part ? 7'd2 : 7'd0;
        for (lane_i = 0; lane_i < LANES; lane_i = lane_i + 1)
            burst_bytes = burst_bytes + {4'd0, &tags[2*lane_i+:2],
                tags[2*lane_i+:2] == 2'd2, tags[2*lane_i+:2] == 2'd1};
    end

    // End of the packet's bytes that have arrived, counted from head's first byte, as place is.
    wire [      6:0] end_of_next = next_last ? BEAT7 + next_bytes
                                 : 2 * BEAT7 + {6'd0, s_tvalid};
    wire [      6:0] end_known = head_last || !next_valid ? head_bytes : end_of_next;
    wire             end_at_input = !next_last && s_tvalid && s_tlast && !s_tkeep[1];
    wire             end_seen = head_last || (next_valid && (next_last || end_at_input));
    wire [      6:0] place_after = place + burst_bytes;
    wire             whole = place_after <= end_known;

    wire [     15:0] values = fresh ? head_count : values_left;
    wire             ends = values <= LANES[15:0];
    reg  [     15:0] past_last;                 // mask of the tags past the last value
    reg  [LANES-1:0] lanes_used;
    always @* begin
        for (i = 0; i < 8; i = i + 1) past_last[2*i+:2] = {2{ends && i >= {28'd0, values[3:0]}}};
        for (i = 0; i < LANES; i = i + 1) lanes_used[i] = !past_last[2*i];
    end

    wire             free = m_ready || !m_valid;
    wire             step = head_valid && !drain && (whole || end_seen) && free;
    wire             clean = whole && end_seen && place_after == end_known && values != 16'd0
                           && (tags & past_last) == 16'd0;
    wire             over = ends || !whole;     // the output packet ends with this step
    wire             good_end = step && over && clean;
    wire             bad_end = step && over && !clean;

    // How many beats leave the buffer. A good end removes all beats of its packet, even the one at
    // the input. A step within a packet never takes the packet's last beat: the next step
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
        if (free) begin
            m_payload <= payload;
            m_tags <= tags[2*LANES-1:0];
            m_used <= lanes_used;
            m_last <= over;
            m_error <= over && !clean;
            m_valid <= step;
        end
        if (rst) begin
            m_valid <= 1'b0;
            head_valid <= 1'b0;
            next_valid <= 1'b0;
            drain <= 1'b0;
            fresh <= 1'b1;
            place <= 7'd0;
            part <= 2'd0;
        end
    end
endmodule
