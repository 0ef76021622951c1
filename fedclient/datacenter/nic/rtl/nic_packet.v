// The packet level of one direction: matches headers, aligns payloads for the engine, keeps frames
// in a FIFO, and writes checksums. The engine is nic_compress or nic_decompress.
// SPDX-License-Identifier: Apache-2.0

// AXI-stream of Ethernet frames in and out, without FCS, byte 0 in tdata[7:0]. All beats of a frame
// are full but the last, which has one byte or more, from the lowest lane on. Frames leave in the
// order in which they came. The ports c_ lead to the engine, d_ come from it.
//
// Each frame goes into the packet FIFO. The payload of a frame that may be coded also goes through
// the aligner and the engine into the second FIFO. When both are done, nic_judge decides in which
// form the frame leaves, and nic_merge reads it back. A frame of more than 32 * MOST bytes leaves
// as it came, in parts of that size, so it needs no more room than others.
module nic_packet #(
    parameter RX = 0,           // 0: compress; 1: restore
    parameter TABLE = 6,        // 2^TABLE connections (RX 0)
    parameter A = 10,           // packet FIFO: 2^A beats; at least 2 * MOST
    parameter B = 10,           // second FIFO: 2^B beats; at least 2 * MOST
    parameter MOST = 288        // beats of a frame: 9,216 bytes
) (
    input  wire         clk,
    input  wire         rst,

    input  wire [255:0] s_tdata,
    input  wire [31:0]  s_tkeep,
    input  wire         s_tlast,
    input  wire         s_tvalid,
    output wire         s_tready,

    output wire [255:0] m_tdata,
    output wire [31:0]  m_tkeep,
    output wire         m_tlast,
    output wire         m_tvalid,
    input  wire         m_tready,

    output wire [255:0] c_tdata,
    output reg  [31:0]  c_tkeep,
    output wire         c_tlast,
    output wire [15:0]  c_count, // values of the packet (RX 1)
    output wire         c_tvalid,
    input  wire         c_tready,

    input  wire [255:0] d_tdata,
    input  wire [31:0]  d_tkeep,
    input  wire         d_tlast,
    input  wire         d_error, // with d_tlast: the packet was malformed
    input  wire         d_tvalid,
    output wire         d_tready
);
    integer i;

    function [5:0] bytes_of(input [31:0] keep);
        begin
            bytes_of = 0;
            for (i = 0; i < 32; i = i + 1)
                bytes_of = bytes_of + {5'd0, keep[i]};
        end
    endfunction

    // Input: frames go into the packet FIFO and into a short queue before the aligner.
    localparam [31:0] A_BEATS = 1 << A;
    reg [A-1:0] a_to;
    reg a_full;
    wire [A-1:0] a_from, a_at;
    wire [262:0] a_out;
    wire a_read, beats_room, found_room;
    reg [9:0] part;   // beats of this part of the frame
    reg later;        // the part is not the frame's first
    wire in = s_tvalid && s_tready;
    wire part_last = s_tlast || part == MOST[9:0] - 10'd1;
    wire [5:0] in_bytes = bytes_of(s_tkeep);
    assign s_tready = !a_full && beats_room && found_room;

    wire [A-1:0] a_used = a_to - a_from;
    always @(posedge clk) begin
        a_full <= {{(32-A){1'b0}}, a_used} + 32'd3 >= A_BEATS;
        if (in) begin
            a_to <= a_to + 1'b1;
            part <= part_last ? 10'd0 : part + 10'd1;
            if (part_last)
                later <= !s_tlast;
        end
        if (rst) begin
            a_to <= 0;
            a_full <= 0;
            part <= 0;
            later <= 0;
        end
    end
    nic_ram #(.W(263), .L(A)) frames (
        .clk(clk), .write(in), .to(a_to), .in({s_tlast, in_bytes, s_tdata}),
        .read(a_read), .from(a_at), .out(a_out)
    );

    wire beat_some, beat_take;
    wire [264:0] beat;
    nic_queue #(.W(265), .L(5)) beats_to_align (
        .clk(clk), .rst(rst), .push(in), .room(beats_room),
        .in({later, !s_tlast, part_last, in_bytes, s_tdata}),
        .pop(beat_take), .head(beat), .some(beat_some)
    );
    wire beat_later = beat[264];
    wire beat_more = beat[263];
    wire beat_last = beat[262];
    wire [5:0] beat_bytes = beat[261:256];

    wire say, found_some, found_take;
    wire [83:0] saying, found;
    nic_parse #(.RX(RX), .TABLE(TABLE)) parse (
        .clk(clk), .rst(rst), .beat(in && !later), .index(part > 10'd3 ? 2'd3 : part[1:0]),
        .last(part_last), .count(in_bytes), .data(s_tdata), .say(say), .found(saying)
    );
    nic_queue #(.W(84), .L(5), .SLACK(10)) headers (
        .clk(clk), .rst(rst), .push(say), .in(saying), .room(found_room),
        .pop(found_take), .head(found), .some(found_some)
    );

    // The aligner's first step: shift the payload so that it begins in lane 0.
    reg [9:0] k;
    reg begun;
    reg [83:0] kept;
    wire first = k == 0;
    wire [83:0] frame = !first ? kept : beat_later ? 84'd0 : found;
    wire code = frame[83];
    wire [6:0] header = frame[78:72];
    wire [15:0] payload = frame[71:56];
    wire [15:0] p_count = payload + 16'd31;
    wire front_room, front_take, p_room, align_ready;
    wire ready = beat_some && (!first || beat_later || found_some)
                            && front_room && p_room && all_room;
    assign beat_take = ready && align_ready;
    assign found_take = beat_take && first && !beat_later;
    wire begins = beat_take && code && k == {8'd0, header[6:5]};
    wire [14:0] frame_size = {k, 5'd0} + {9'd0, beat_bytes};
    wire whole = !beat_more && !beat_later
              && {1'b0, frame_size} == payload + {9'd0, header};
    always @(posedge clk) begin
        if (beat_take) begin
            k <= beat_last ? 10'd0 : k + 10'd1;
            begun <= !beat_last && (begun || begins);
            kept <= frame;
        end
        if (rst) begin
            k <= 0;
            begun <= 0;
        end
    end

    // A compressed segment's checksum is right with protocol number 253. The pseudo-header's
    // addresses lie just before TCP's header.
    wire all_some, all_room;
    wire [15:0] all;
    generate
        if (RX != 0) begin : check
            wire done;
            wire [15:0] sum;
            wire [4:0] addresses = 5'd26 - (frame[82] ? 5'd4 : 5'd0) + (frame[81] ? 5'd4 : 5'd0);
            nic_sum sum_of_all (
                .clk(clk), .rst(rst), .beat(beat_take), .last(beat_last),
                .from(first ? addresses : 5'd0), .count(beat_bytes), .data(beat[255:0]),
                .done(done), .sum(sum)
            );
            nic_queue #(.W(16), .L(5), .SLACK(8)) sums (
                .clk(clk), .rst(rst), .push(done), .in(sum), .room(all_room),
                .pop(front_take), .head(all), .some(all_some)
            );
        end else begin : trust
            assign all = 0;
            assign all_some = 1;
            assign all_room = 1;
        end
    endgenerate

    wire p_valid, p_ready, p_first, p_last;
    wire [255:0] p_data;
    nic_shift to_payload (
        .clk(clk), .rst(rst), .skip(header[6:5]), .drop(header[4:0]),
        .beats(code ? p_count[14:5] : 10'd0),
        .s_valid(ready), .s_ready(align_ready), .s_data(beat[255:0]), .s_last(beat_last),
        .m_valid(p_valid), .m_ready(p_ready), .m_data(p_data), .m_first(p_first), .m_last(p_last)
    );

    // The queue `fronts` has an entry for each frame, `payloads` one for each frame whose payload
    // is in the aligner.
    wire front_some, p_some;
    wire [94:0] front;
    nic_queue #(.W(95), .L(5), .SLACK(1)) fronts (
        .clk(clk), .rst(rst), .push(beat_take && beat_last), .room(front_room),
        .in({k + 10'd1, whole, code && (begun || begins), frame[82:0]}),
        .pop(front_take), .head(front), .some(front_some)
    );
    wire [24:0] p_frame;
    wire p_take = p_valid && p_ready;
    nic_queue #(.W(25), .L(3), .SLACK(1)) payloads (
        .clk(clk), .rst(rst), .push(begins), .room(p_room),
        .in({header, frame[80:79], payload}),
        .pop(p_take && p_last), .head(p_frame), .some(p_some)
    );

    // The aligner's second step: shift the engine's bytes so that they begin in lane 0. The engine
    // gets whole floats only, without the lead and end bytes, which belong to floats that the
    // segment cuts.
    wire [15:0] p_size = p_frame[15:0];
    wire [6:0] p_header = p_frame[24:18];
    wire [15:0] p_original = RX != 0 ? {p_data[7:0], p_data[15:8]} : p_size;
    wire [1:0] p_lead = RX != 0 ? p_data[17:16] : p_frame[17:16];
    wire [15:0] p_floats = p_original - {14'd0, p_lead};
    wire [1:0] p_end = p_floats[1:0];
    wire [15:0] p_around = (RX != 0 ? 16'd4 : 16'd0) + {14'd0, p_lead} + {14'd0, p_end};
    wire [15:0] p_engine = p_size - p_around;
    localparam [31:0] BYTES = 32 * MOST;
    wire p_good = p_floats[15:2] != 0 && p_size > p_around
               && p_original > {14'd0, p_lead}
               && (RX == 0 || (p_data[31:18] == 0 && p_original > p_size
                               && p_original <= BYTES[15:0] - {9'd0, p_header}));
    wire [15:0] p_beats = p_engine + 16'd31;
    wire [4:0] p_drop = (RX != 0 ? 5'd4 : 5'd0) + {3'd0, p_lead};
    wire [23:0] p_leads = (RX != 0 ? p_data[55:32] : p_data[23:0])
                        & {{8{p_lead == 3}}, {8{p_lead >= 2}}, {8{p_lead != 0}}};

    reg [60:0] p_kept; // data of the packet whose first beat has passed
    wire [60:0] p_now = p_first ? {p_good, p_original, p_lead, p_end, p_leads, p_floats}
                                : p_kept;
    reg [23:0] p_before; // the last three bytes of the beat before
    wire [5:0] p_bytes = p_last && p_size[4:0] != 0 ? {1'b0, p_size[4:0]} : 6'd32;
    /* verilator lint_off UNUSED */
    wire [279:0] p_ends = {p_data, p_before} >> {p_bytes, 3'b000};
    /* verilator lint_on UNUSED */
    wire e_room, ec_room, info_room, old_room, align2_ready;
    wire p_go = info_room && old_room && e_room && ec_room && p_some;
    assign p_ready = p_go && align2_ready;
    always @(posedge clk)
        if (p_take) begin
            p_kept <= p_now;
            p_before <= p_data[255:232];
        end

    wire c_first_unused;
    reg [4:0] c_ends;  // bytes of the last beat to the engine; 0 means 32
    nic_shift to_engine (
        .clk(clk), .rst(rst), .skip(2'd0), .drop(p_drop), .beats(p_good ? p_beats[14:5] : 10'd0),
        .s_valid(p_valid && p_go), .s_ready(align2_ready), .s_data(p_data), .s_last(p_last),
        .m_valid(c_tvalid), .m_ready(c_tready), .m_data(c_tdata), .m_first(c_first_unused),
        .m_last(c_tlast)
    );
    wire ec_some;
    wire [20:0] ec;
    nic_queue #(.W(21), .L(3), .SLACK(1)) engine_in (
        .clk(clk), .rst(rst), .push(p_take && p_first && p_good), .room(ec_room),
        .in({p_engine[4:0], 2'b00, p_floats[15:2]}),
        .pop(c_tvalid && c_tready && c_tlast), .head(ec), .some(ec_some)
    );
    assign c_count = ec[15:0];
    always @* begin
        c_ends = ec[20:16];
        for (i = 0; i < 32; i = i + 1)
            c_tkeep[i] = !c_tlast || c_ends == 0 || i[4:0] < c_ends;
    end

    wire info_some, info_take, old_some, old_done;
    wire [84:0] info;
    wire [23:0] end_bytes = p_ends[23:0];
    nic_queue #(.W(85), .L(3), .SLACK(1)) infos (
        .clk(clk), .rst(rst), .push(p_take && p_last), .room(info_room),
        .in({p_now, end_bytes}), .pop(info_take), .head(info), .some(info_some)
    );
    wire [15:0] old_sum, old;
    nic_sum sum_of_old (
        .clk(clk), .rst(rst), .beat(p_take), .last(p_last), .from(5'd0), .count(p_bytes),
        .data(p_data),
        .done(old_done), .sum(old_sum)
    );
    nic_queue #(.W(16), .L(4), .SLACK(8)) old_sums (
        .clk(clk), .rst(rst), .push(old_done), .in(old_sum), .room(old_room),
        .pop(info_take), .head(old), .some(old_some)
    );

    // The engine's output goes into the second FIFO, without beats beyond the useful length.
    localparam [31:0] B_BEATS = 1 << B;
    wire e_some;
    wire [9:0] limit;
    wire [15:0] limit_of = p_floats + 16'd31; // as many beats as the uncompressed floats have
    nic_queue #(.W(10), .L(4), .SLACK(1)) limits (
        .clk(clk), .rst(rst), .push(p_take && p_first && p_good), .room(e_room),
        .in(limit_of[14:5]),
        .pop(d_tvalid && d_tready && d_tlast), .head(limit), .some(e_some)
    );
    reg [B-1:0] b_to;
    reg b_full;
    reg [9:0] d_beats; // beats of this packet so far
    reg d_over;
    wire [B-1:0] b_from, b_at;
    wire [255:0] b_out;
    wire [B-1:0] b_used = b_to - b_from;
    wire result_room, new_room;
    assign d_tready = !b_full && e_some && result_room && new_room;
    wire d_take = d_tvalid && d_tready;
    wire fits = d_beats != limit;
    wire [5:0] d_bytes = bytes_of(d_tkeep);
    wire [9:0] d_whole = d_beats + {9'd0, fits};
    always @(posedge clk) begin
        b_full <= {{(32-B){1'b0}}, b_used} + 32'd3 >= B_BEATS;
        if (d_take) begin
            if (fits)
                b_to <= b_to + 1'b1;
            d_beats <= d_tlast ? 10'd0 : d_whole;
            d_over <= !d_tlast && (d_over || !fits);
        end
        if (rst) begin
            b_to <= 0;
            b_full <= 0;
            d_beats <= 0;
            d_over <= 0;
        end
    end
    nic_ram #(.W(256), .L(B)) payloads_in_new_form (
        .clk(clk), .write(d_take && fits), .to(b_to), .in(d_tdata),
        .read(a_read), .from(b_at), .out(b_out)
    );
    wire result_some, result_take, new_some, new_done;
    wire [16:0] result;
    nic_queue #(.W(17), .L(3), .SLACK(1)) results (
        .clk(clk), .rst(rst), .push(d_take && d_tlast), .room(result_room),
        .in({d_error || d_over || !fits, d_whole, d_bytes}),
        .pop(result_take), .head(result), .some(result_some)
    );
    wire [15:0] new_sum, new_one;
    nic_sum sum_of_new (
        .clk(clk), .rst(rst), .beat(d_take), .last(d_tlast), .from(5'd0), .count(d_bytes),
        .data(d_tdata),
        .done(new_done), .sum(new_sum)
    );
    nic_queue #(.W(16), .L(4), .SLACK(8)) new_sums (
        .clk(clk), .rst(rst), .push(new_done), .in(new_sum), .room(new_room),
        .pop(result_take), .head(new_one), .some(new_some)
    );

    wire plan_here, plan_room, plan_some, plan_take;
    wire [184:0] planned, plan;
    nic_judge #(.RX(RX)) judge (
        .clk(clk), .rst(rst), .room(plan_room),
        .front_some(front_some && all_some), .front(front), .all(all), .front_take(front_take),
        .info_some(info_some && old_some), .info(info), .old(old), .info_take(info_take),
        .result_some(result_some && new_some), .result(result), .new_one(new_one),
        .result_take(result_take), .say(plan_here), .plan(planned)
    );
    nic_queue #(.W(185), .L(4), .SLACK(7)) plans (
        .clk(clk), .rst(rst), .push(plan_here), .in(planned), .room(plan_room),
        .pop(plan_take), .head(plan), .some(plan_some)
    );
    nic_merge #(.A(A), .B(B)) merge (
        .clk(clk), .rst(rst), .some(plan_some), .plan(plan), .take(plan_take),
        .a_from(a_from), .a_at(a_at), .a_out(a_out),
        .b_from(b_from), .b_at(b_at), .b_out(b_out), .read(a_read),
        .m_tvalid(m_tvalid), .m_tready(m_tready), .m_tdata(m_tdata), .m_tkeep(m_tkeep),
        .m_tlast(m_tlast)
    );
    wire unused = &{1'b0, c_first_unused, ec_some, p_count[15], p_count[4:0], p_beats[15],
                    p_beats[4:0], limit_of[15], limit_of[4:0]};
endmodule
