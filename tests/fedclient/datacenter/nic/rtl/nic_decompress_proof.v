// Proof that the decompressor ends each packet, whatever its input is (yosys-smtbmc).
// SPDX-License-Identifier: Apache-2.0

// The solver chooses all input and backpressure. The output must keep AXI-stream's rules. It must
// have one packet for each input packet, and must not begin before the input packet's first beat.
// A packet without an error must have s_count floats. After enough quiet cycles all packets must
// have left. The unit is 64 bits wide here. The simulation, not this proof, checks the values of
// the bytes.
module nic_decompress_proof #(
    parameter WIDTH = 64
) (
    input wire               clk,
    input wire [  WIDTH-1:0] s_tdata,
    input wire [WIDTH/8-1:0] s_tkeep,
    input wire               s_tlast,
    input wire [       15:0] s_count,
    input wire               s_tvalid,
    input wire               m_tready
);
    reg rst = 1'b1;
    always @(posedge clk) rst <= 1'b0;

    wire               s_tready, m_tlast, m_tvalid, m_error;
    wire [  WIDTH-1:0] m_tdata;
    wire [WIDTH/8-1:0] m_tkeep;
    nic_decompress #(.WIDTH(WIDTH)) engine (
        .clk(clk), .rst(rst),
        .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_count(s_count),
        .s_tvalid(s_tvalid), .s_tready(s_tready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_error(m_error),
        .m_tvalid(m_tvalid), .m_tready(m_tready)
    );
    nic_axi_rules #(.BYTES(WIDTH / 8), .INPUT(1)) rules_in (
        .clk(clk), .rst(rst), .tdata(s_tdata), .tkeep(s_tkeep), .tlast(s_tlast), .tside(s_count),
        .tvalid(s_tvalid), .tready(s_tready)
    );
    nic_axi_rules #(.BYTES(WIDTH / 8), .UNIT(4), .MAY_BE_EMPTY(1)) rules_out (
        .clk(clk), .rst(rst), .tdata(m_tdata), .tkeep(m_tkeep), .tlast(m_tlast),
        .tside({15'd0, m_error}), .tvalid(m_tvalid), .tready(m_tready)
    );

    (* anyconst *) reg [15:0] count;            // the same for every packet
    always @* assume (s_count == count && count <= 16'd4);

    reg [2:0]  begun = 3'd0, ended = 3'd0, out_ended = 3'd0;
    reg        open = 1'b0;
    reg [15:0] floats = 16'd0;
    reg [3:0]  calm = 4'd0;
    wire       in = s_tvalid && s_tready && !rst;
    wire       out = m_tvalid && m_tready && !rst;
    wire [1:0] floats_now = {1'b0, m_tkeep[0]} + {1'b0, m_tkeep[4]};
    wire [15:0] floats_after = floats + {14'd0, floats_now};
    always @(posedge clk) begin
        if (in) begin
            begun <= begun + {2'd0, !open};
            ended <= ended + {2'd0, s_tlast};
            open <= !s_tlast;
        end
        if (out) begin
            out_ended <= out_ended + {2'd0, m_tlast};
            floats <= m_tlast ? 16'd0 : floats_after;
        end
        calm <= s_tvalid || !m_tready || rst ? 4'd0 : calm + {3'd0, calm != 4'd15};
    end
    always @* assume (begun <= 3'd3);

    always @* if (!rst) begin
        if (m_tvalid) assert (out_ended < begun);
        if (out && m_tlast && !m_error) assert (floats_after == count && count != 0);
        if (out) assert (floats_after <= 16'd4);
        if (calm == 4'd8 && !open) assert (out_ended == begun && ended == begun && !m_tvalid);
    end
endmodule
