// Proof that the aligner nic_shift loses, doubles and reorders no byte (yosys-smtbmc).
// SPDX-License-Identifier: Apache-2.0

// The solver chooses packets, idle cycles, backpressure, a packet `chosen`, and the number `which`
// of one of its output bytes. That byte must come at its place, and the packet must end at the
// right byte. Beats of four bytes keep the proof small.
module nic_shift_proof (
    input wire         clk,
    input wire [1:0]   skip,
    input wire [1:0]   drop,
    input wire [9:0]   beats,
    input wire         s_valid,
    input wire [31:0]  s_data,
    input wire         s_last,
    input wire         m_ready
);
    reg rst = 1;
    always @(posedge clk) rst <= 0;
    wire s_ready, m_valid, m_first, m_last;
    wire [31:0] m_data;
    nic_shift #(.S(2)) shift (
        .clk(clk), .rst(rst), .skip(skip), .drop(drop), .beats(beats),
        .s_valid(s_valid), .s_ready(s_ready), .s_data(s_data), .s_last(s_last),
        .m_valid(m_valid), .m_ready(m_ready), .m_data(m_data), .m_first(m_first), .m_last(m_last)
    );
    reg waits_in = 0, waits_out = 0;
    reg [47:0] was_in;
    reg [33:0] was_out;
    wire [47:0] is_in = {skip, drop, beats, s_valid, s_data, s_last};
    wire [33:0] is_out = {m_data, m_first, m_last};
    always @(posedge clk) begin
        waits_in <= s_valid && !s_ready && !rst;
        waits_out <= m_valid && !m_ready && !rst;
        was_in <= is_in;
        was_out <= is_out;
    end
    always @* if (!rst) begin
        if (waits_in)
            assume (is_in == was_in);
        if (waits_out)
            assert (m_valid && is_out == was_out);
    end

    (* anyconst *) reg [1:0] chosen;
    (* anyconst *) reg [3:0] which;
    wire in = s_valid && s_ready && !rst;
    wire out = m_valid && m_ready && !rst;

    // The unit reads a packet's parameters with its first beat.
    reg [2:0] index = 0;
    reg [1:0] kept_skip;
    reg [1:0] kept_drop;
    reg [9:0] kept_beats;
    wire [1:0] now_skip = index == 0 ? skip : kept_skip;
    wire [1:0] now_drop = index == 0 ? drop : kept_drop;
    wire [9:0] now_beats = index == 0 ? beats : kept_beats;
    wire [4:0] place = {1'b0, which} + {1'b0, now_skip, now_drop};
    wire emits = now_beats != 0 && index >= {1'b0, now_skip}; // known with the last beat
    wire [2:0] most = index - {1'b0, now_skip} + 3'd1;
    reg [2:0] packets_in = 0, packets_out = 0, index_out = 0, total;
    reg seen = 0, known = 0;
    reg [7:0] byte;
    always @(posedge clk) begin
        if (in) begin
            index <= s_last ? 3'd0 : index + 3'd1;
            kept_skip <= now_skip;
            kept_drop <= now_drop;
            kept_beats <= now_beats;
            if (packets_in == {1'b0, chosen} && place[4:2] == index) begin
                seen <= 1;
                byte <= s_data[8*place[1:0] +: 8];
            end
            if (s_last && emits) begin
                packets_in <= packets_in + 3'd1;
                if (packets_in == {1'b0, chosen}) begin
                    known <= 1;
                    total <= now_beats < {7'd0, most} ? now_beats[2:0] : most;
                end
            end
            if (s_last && !emits && packets_in == {1'b0, chosen})
                seen <= 0;
        end
        if (out) begin
            index_out <= m_last ? 3'd0 : index_out + 3'd1;
            packets_out <= packets_out + {2'd0, m_last};
        end
    end
    always @* if (!rst) begin
        assume (index != 3'd6);
        assume (packets_in != 3'd6);
    end

    always @* if (!rst && m_valid) begin
        assert (m_first == (index_out == 0));
        if (packets_out == {1'b0, chosen}) begin
            if (seen && index_out == {1'b0, which[3:2]})
                assert (m_data[8*which[1:0] +: 8] == byte);
            if (known)
                assert (m_last == (index_out + 3'd1 == total));
        end
    end

    // After some quiet cycles nothing may be left inside.
    reg [2:0] calm = 0;
    always @(posedge clk)
        calm <= s_valid || !m_ready || rst ? 3'd0 : calm + {2'd0, calm != 3'd7};
    always @* if (calm >= 3'd4 && index == 0)
        assert (packets_in == packets_out && !m_valid);
endmodule
