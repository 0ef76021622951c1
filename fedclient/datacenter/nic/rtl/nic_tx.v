// The NIC's send direction: marked segments of the host are compressed, other frames are unchanged.
// SPDX-License-Identifier: Apache-2.0

// AXI-stream as in nic_packet. A segment is compressed only if its ToS is 0x28 (without ECN), its
// connection's marked SYN passed here and is still in the table, and it becomes shorter.
module nic_tx #(
    parameter E = 10,           // magnitudes under 2^-E become 0; 1 to 15
    parameter TABLE = 6,        // 2^TABLE connections
    parameter A = 10,           // packet FIFO: 2^A beats
    parameter B = 10,           // second FIFO: 2^B beats
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
    input  wire         m_tready
);
    wire [255:0] c_tdata, d_tdata;
    wire [31:0] c_tkeep, d_tkeep;
    wire [15:0] c_count, d_bytes;
    wire c_tlast, c_tvalid, c_tready, d_tlast, d_tvalid, d_tready;
    nic_packet #(.RX(0), .TABLE(TABLE), .A(A), .B(B), .MOST(MOST)) packet (
        .clk(clk), .rst(rst),
        .s_tdata(s_tdata), .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tvalid(s_tvalid),
        .s_tready(s_tready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_tvalid(m_tvalid),
        .m_tready(m_tready),
        .c_tdata(c_tdata), .c_tkeep(c_tkeep), .c_tlast(c_tlast), .c_count(c_count),
        .c_tvalid(c_tvalid), .c_tready(c_tready),
        .d_tdata(d_tdata), .d_tkeep(d_tkeep), .d_tlast(d_tlast), .d_error(1'b0),
        .d_tvalid(d_tvalid), .d_tready(d_tready)
    );
    nic_compress #(.E(E)) compress (
        .clk(clk), .rst(rst),
        .s_tdata(c_tdata), .s_tkeep(c_tkeep), .s_tlast(c_tlast), .s_tvalid(c_tvalid),
        .s_tready(c_tready),
        .m_tdata(d_tdata), .m_tkeep(d_tkeep), .m_tlast(d_tlast), .m_bytes(d_bytes),
        .m_tvalid(d_tvalid), .m_tready(d_tready)
    );
    wire unused = &{1'b0, c_count, d_bytes};
endmodule
