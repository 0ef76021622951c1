// Read frames back from the packet FIFO, and join headers with the payload in its new form.
// SPDX-License-Identifier: Apache-2.0

// `plan` says how a frame leaves. Raw: its beats leave as they came. Coded: its first `header`
// bytes leave with new lengths, ToS and checksums, then `put` bytes of the plan, then beats of the
// second FIFO, then `end` bytes of the plan. In each cycle one beat is read from each of the two
// memories, so a frame takes as many cycles as it has beats, and the next one follows without a
// gap.
module nic_merge #(
    parameter A = 10,           // 2^A beats of frames
    parameter B = 10            // 2^B beats of payload in new form
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         some,   // a plan waits
    input  wire [184:0] plan,
    output wire         take,
    output reg  [A-1:0] a_from, // first beat that is still needed
    output wire [A-1:0] a_at,
    input  wire [262:0] a_out,  // last, bytes, data
    output reg  [B-1:0] b_from,
    output wire [B-1:0] b_at,
    input  wire [255:0] b_out,
    output wire         read,
    output reg          m_tvalid,
    input  wire         m_tready,
    output reg  [255:0] m_tdata,
    output reg  [31:0]  m_tkeep,
    output reg          m_tlast
);
    integer i;
    wire move = !m_tvalid || m_tready;
    assign read = move;

    reg here;
    reg [184:0] now;
    wire coded = now[184];
    wire [9:0] a_beats = now[181:172];
    wire [9:0] b_beats = now[171:162];
    wire [13:0] size = now[161:148];
    wire [6:0] header = now[147:141];
    wire [2:0] put = now[140:138];
    wire [6:0] seam = header + {4'd0, put}; // offset at which the second FIFO's bytes begin
    reg [9:0] k;
    wire [9:0] beats = coded ? {1'b0, size[13:5]} + {9'd0, size[4:0] != 0} : a_beats;
    wire ends = k + 10'd1 == beats;
    wire [9:0] j = k - {8'd0, seam[6:5]};
    generate
        if (A >= 10) begin : wide_a
            assign a_at = a_from + {{(A-10){1'b0}}, k};
        end else begin : narrow_a
            assign a_at = a_from + k[A-1:0];
        end
        if (B >= 10) begin : wide_b
            assign b_at = b_from + {{(B-10){1'b0}}, j};
        end else begin : narrow_b
            assign b_at = b_from + j[B-1:0];
        end
    endgenerate
    assign take = some && (!here || (ends && move));

    always @(posedge clk) begin
        if (take) begin
            here <= 1;
            now <= plan;
        end else if (ends && move)
            here <= 0;
        if (here && move) begin
            k <= ends ? 10'd0 : k + 10'd1;
            if (ends) begin
                a_from <= a_from + a_beats[A-1:0];
                b_from <= b_from + b_beats[B-1:0];
            end
        end
        if (rst) begin
            here <= 0;
            k <= 0;
            a_from <= 0;
            b_from <= 0;
        end
    end

    // New header fields, and the second FIFO's beat, rotated so that it fits behind the seam.
    reg one_here, one_border, one_pure, one_ends;
    reg [184:0] one;
    reg [2:0] one_k;     // beat number; 4: beyond the header
    reg [13:0] one_left; // bytes from this beat to the frame's end
    wire one_coded = one[184];
    wire one_v6 = one[183];
    wire one_vlan = one[182];
    wire [6:0] one_header = one[147:141];
    wire [2:0] one_put = one[140:138];
    wire [55:0] one_bytes = one[137:82];
    wire [1:0] one_end = one[81:80];
    wire [4:0] one_turn = one_header[4:0] + {2'd0, one_put};
    wire [15:0] length = one[55:40];
    wire [7:0] tos = one[39:32];
    wire [15:0] ip_sum = one[31:16];
    wire [15:0] tcp_sum = one[15:0];
    always @(posedge clk) begin
        if (move) begin
            one_here <= here && !rst;
            one_ends <= ends;
            one_border <= k[9:2] == 0 && k[1:0] == seam[6:5];
            one_pure <= k > {8'd0, seam[6:5]};
            one_k <= k > 10'd3 ? 3'd4 : k[2:0];
            one_left <= size - {k[8:0], 5'd0};
            one <= now;
        end
        if (rst)
            one_here <= 0;
    end

    wire [6:0] at = one_vlan ? 7'd18 : 7'd14;
    reg [255:0] fields;
    reg [6:0] here_at, after;
    reg [7:0] put_byte;
    always @* begin
        for (i = 0; i < 32; i = i + 1) begin
            here_at = {one_k[1:0], i[4:0]};
            fields[8*i +: 8] = a_out[8*i +: 8];
            after = here_at - one_header;
            put_byte = after[2:0] == 0 ? one_bytes[7:0] : after[2:0] == 1 ? one_bytes[15:8]
                     : after[2:0] == 2 ? one_bytes[23:16] : after[2:0] == 3 ? one_bytes[31:24]
                     : after[2:0] == 4 ? one_bytes[39:32] : after[2:0] == 5 ? one_bytes[47:40]
                                                                           : one_bytes[55:48];
            if (one_coded && !one_k[2]) begin
                if (after < {4'd0, one_put})
                    fields[8*i +: 8] = put_byte;
                if (one_v6) begin
                    if (here_at == at)
                        fields[8*i +: 4] = tos[7:4];
                    if (here_at == at + 7'd1)
                        fields[8*i + 4 +: 4] = tos[3:0];
                    if (here_at == at + 7'd4)
                        fields[8*i +: 8] = length[15:8];
                    if (here_at == at + 7'd5)
                        fields[8*i +: 8] = length[7:0];
                    if (here_at == at + 7'd56)
                        fields[8*i +: 8] = tcp_sum[15:8];
                    if (here_at == at + 7'd57)
                        fields[8*i +: 8] = tcp_sum[7:0];
                end else begin
                    if (here_at == at + 7'd1)
                        fields[8*i +: 8] = tos;
                    if (here_at == at + 7'd2)
                        fields[8*i +: 8] = length[15:8];
                    if (here_at == at + 7'd3)
                        fields[8*i +: 8] = length[7:0];
                    if (here_at == at + 7'd10)
                        fields[8*i +: 8] = ip_sum[15:8];
                    if (here_at == at + 7'd11)
                        fields[8*i +: 8] = ip_sum[7:0];
                    if (here_at == at + 7'd36)
                        fields[8*i +: 8] = tcp_sum[15:8];
                    if (here_at == at + 7'd37)
                        fields[8*i +: 8] = tcp_sum[7:0];
                end
            end
        end
    end
    /* verilator lint_off UNUSED */
    wire [511:0] twice = {b_out, b_out} >> {6'd32 - {1'b0, one_turn}, 3'b000};
    /* verilator lint_on UNUSED */
    wire unused = &{1'b0, one[181:148], seam[4:0]};

    reg two_here, two_border, two_pure, two_last;
    reg [255:0] two_fields, two_turned, ahead; // ahead: the rotated beat of the cycle before
    reg [4:0] two_turn;
    reg [5:0] two_count;
    reg [5:0] two_left; // 63 means 63 or more
    reg [1:0] two_end;
    reg [23:0] two_bytes;
    always @(posedge clk) begin
        if (move) begin
            two_here <= one_here && !rst;
            two_border <= one_coded && one_border;
            two_pure <= one_coded && one_pure;
            two_last <= one_coded ? one_ends : a_out[262];
            two_count <= one_coded ? (one_left > 14'd32 ? 6'd32 : one_left[5:0]) : a_out[261:256];
            two_left <= one_left > 14'd63 ? 6'd63 : one_left[5:0];
            two_fields <= fields;
            two_turned <= twice[255:0];
            two_turn <= one_turn;
            two_end <= one_coded ? one_end : 2'd0;
            two_bytes <= one[79:56];
            ahead <= two_turned;
        end
        if (rst)
            two_here <= 0;
    end

    // Choose each lane's byte. In the seam's beat, lanes below the seam are the header's; in later
    // beats they take the bytes that the beat before left over. The `end` bytes come last.
    always @(posedge clk) begin
        if (move) begin
            for (i = 0; i < 32; i = i + 1) begin
                if (two_end != 0 && two_left == i[5:0] + 6'd1)
                    m_tdata[8*i +: 8] <= two_bytes[23:16];
                else if (two_end[1] && two_left == i[5:0] + 6'd2)
                    m_tdata[8*i +: 8] <= two_bytes[15:8];
                else if (two_end == 3 && two_left == i[5:0] + 6'd3)
                    m_tdata[8*i +: 8] <= two_bytes[7:0];
                else if (two_pure || (two_border && i[4:0] >= two_turn))
                    m_tdata[8*i +: 8] <= two_pure && i[4:0] < two_turn ? ahead[8*i +: 8]
                                                                       : two_turned[8*i +: 8];
                else
                    m_tdata[8*i +: 8] <= two_fields[8*i +: 8];
                m_tkeep[i] <= two_count > i[5:0];
            end
            m_tlast <= two_last;
            m_tvalid <= two_here;
        end
        if (rst)
            m_tvalid <= 0;
    end
endmodule
