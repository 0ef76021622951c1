// Aligner: removes the first `skip` beats and `drop` bytes of a packet, so that the rest begins in
// lane 0.
// SPDX-License-Identifier: Apache-2.0
//
// A beat has 2^S bytes: 32 in the NIC, fewer in proofs. skip, drop and beats are read with a
// packet's first beat. The output has `beats` beats, the last with tlast; with 0 the
// whole packet is dropped. If the packet is shorter than announced, there are fewer output beats,
// the last with tlast. A packet that ends before its beat number `skip` has no output.
// A packet's last bytes leave while the next packet's first beat comes in, because that beat only
// fills `hold`. So no cycle is lost between packets.
module nic_shift #(
    parameter S = 5
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [1:0]   skip,
    input  wire [S-1:0] drop,
    input  wire [9:0]   beats,
    input  wire         s_valid,
    output wire         s_ready,
    input  wire [(8<<S)-1:0] s_data,
    input  wire         s_last,
    output reg          m_valid,
    input  wire         m_ready,
    output reg  [(8<<S)-1:0] m_data,
    output reg          m_first,
    output reg          m_last
);
    localparam W = 8 << S;
    reg [W-1:0] hold;
    reg [S-1:0] shift;
    reg [1:0] passed; // beats to pass before the payload's first
    reg [9:0] left;   // output beats that are left
    reg first, fresh, flush;

    reg p_valid, p_first, p_last; // two neighbouring beats, not yet shifted
    reg [W-1:0] p_low, p_high;
    reg [S-1:0] p_shift;

    wire out = !m_valid || m_ready;
    wire go = !p_valid || out;
    assign s_ready = go;
    wire emit = s_valid && !first && passed == 0 && left != 0;

    always @(posedge clk) begin
        if (go) begin
            p_valid <= flush || emit;
            p_first <= fresh;
            p_last <= flush || left == 1;
            p_low <= hold;
            p_high <= s_data;
            p_shift <= shift;
            flush <= 0;
            if (flush || emit)
                fresh <= 0;
            if (s_valid) begin
                hold <= s_data;
                first <= s_last;
                if (first) begin
                    shift <= drop;
                    passed <= skip;
                    left <= beats;
                    fresh <= 1;
                    flush <= s_last && skip == 0 && beats != 0;
                end else begin
                    if (passed != 0)
                        passed <= passed - 1'b1;
                    else if (left != 0)
                        left <= left - 1'b1;
                    flush <= s_last && (passed == 1 ? left != 0 : passed == 0 && left > 1);
                end
            end
        end
        if (out) begin
            m_valid <= p_valid;
            m_first <= p_first;
            m_last <= p_last;
        end
        if (rst) begin
            p_valid <= 0;
            m_valid <= 0;
            first <= 1;
            flush <= 0;
        end
    end

    /* verilator lint_off UNUSED */
    wire [2*W-1:0] shifted = {p_high, p_low} >> {p_shift, 3'b000};
    /* verilator lint_on UNUSED */
    always @(posedge clk)
        if (out)
            m_data <= shifted[W-1:0];
endmodule
