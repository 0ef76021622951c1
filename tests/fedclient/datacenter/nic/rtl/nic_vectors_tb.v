// Test bench that sends the golden vectors through both engines, in any Verilog simulator.
// SPDX-License-Identifier: Apache-2.0

// Arguments: +values=FILE +bursts=FILE +decoded=FILE of tests/vectors/bursts. Without +values only
// the decompressor is tested. The last output line is PASSED or FAILED.
`timescale 1ns / 1ns
module nic_vectors_tb #(
    parameter E = 10
);
    localparam MOST = 16384;
    reg  [31:0] values[0:MOST-1], decoded[0:MOST-1];
    reg  [ 7:0] bursts[0:MOST-1];
    integer value_count, burst_bytes, decoded_count;
    reg  [8*256-1:0] path;

    reg clk = 1'b0, rst = 1'b1;
    always #5 clk = !clk;

    reg  [255:0] c_in, d_in;
    reg  [ 31:0] c_keep, d_keep;
    reg          c_last, d_last, c_valid = 1'b0, d_valid = 1'b0, c_take = 1'b0, d_take = 1'b0;
    wire         c_ready, d_ready;
    wire [255:0] c_out, d_out;
    wire [ 31:0] c_out_keep, d_out_keep;
    wire         c_out_last, d_out_last, c_out_valid, d_out_valid, error;
    wire [ 15:0] bytes;
    nic_compress #(.E(E)) compress (
        .clk(clk), .rst(rst), .s_tdata(c_in), .s_tkeep(c_keep), .s_tlast(c_last),
        .s_tvalid(c_valid), .s_tready(c_ready), .m_tdata(c_out), .m_tkeep(c_out_keep),
        .m_tlast(c_out_last), .m_bytes(bytes), .m_tvalid(c_out_valid), .m_tready(c_take)
    );
    nic_decompress decompress (
        .clk(clk), .rst(rst), .s_tdata(d_in), .s_tkeep(d_keep), .s_tlast(d_last),
        .s_count(decoded_count[15:0]), .s_tvalid(d_valid), .s_tready(d_ready), .m_tdata(d_out),
        .m_tkeep(d_out_keep), .m_tlast(d_out_last), .m_error(error), .m_tvalid(d_out_valid),
        .m_tready(d_take)
    );

    integer i, c_at = 0, d_at = 0, c_got = 0, d_got = 0, wrong = 0, cycles = 0;
    reg     c_done = 1'b0, d_done = 1'b0;

    initial begin
        value_count = 0;
        burst_bytes = 0;
        decoded_count = 0;
        if ($value$plusargs("values=%s", path)) begin
            $readmemh(path, values);
            while (^values[value_count] !== 1'bx) value_count = value_count + 1;
        end
        if ($value$plusargs("bursts=%s", path)) $readmemh(path, bursts);
        if ($value$plusargs("decoded=%s", path)) $readmemh(path, decoded);
        while (^bursts[burst_bytes] !== 1'bx) burst_bytes = burst_bytes + 1;
        while (^decoded[decoded_count] !== 1'bx) decoded_count = decoded_count + 1;
        c_done = value_count == 0;
        #20 rst = 1'b0;
    end

    // Inputs change at the falling edge of the clock; a beat is taken at the rising edge.
    always @(negedge clk) if (!rst) begin
        c_take = $random;
        d_take = $random;
        if (!c_valid && c_at < value_count && ($random & 3) != 0) begin
            for (i = 0; i < 8; i = i + 1) begin
                c_in[32*i+:32] = values[c_at+i];
                c_keep[4*i+:4] = {4{c_at + i < value_count}};
            end
            c_last = c_at + 8 >= value_count;
            c_valid = 1'b1;
        end
        if (!d_valid && d_at < burst_bytes && ($random & 3) != 0) begin
            for (i = 0; i < 32; i = i + 1) begin
                d_in[8*i+:8] = bursts[d_at+i];
                d_keep[i] = d_at + i < burst_bytes;
            end
            d_last = d_at + 32 >= burst_bytes;
            d_valid = 1'b1;
        end
        #4;                                     // just before the rising edge
        if (c_out_valid && c_take) begin
            for (i = 0; i < 32; i = i + 1) if (c_out_keep[i]) begin
                if (c_out[8*i+:8] !== bursts[c_got]) wrong = wrong + 1;
                c_got = c_got + 1;
            end
            if (c_out_last) c_done = 1'b1;
            if (c_out_last && (c_got != burst_bytes || bytes != c_got)) wrong = wrong + 1;
        end
        if (d_out_valid && d_take) begin
            for (i = 0; i < 8; i = i + 1) if (d_out_keep[4*i]) begin
                if (d_out[32*i+:32] !== decoded[d_got]) wrong = wrong + 1;
                d_got = d_got + 1;
            end
            if (d_out_last) d_done = 1'b1;
            if (d_out_last && (d_got != decoded_count || error)) wrong = wrong + 1;
        end
        if (c_valid && c_ready) begin
            c_at = c_at + 8;
            #2 c_valid = 1'b0;                  // after the rising edge
        end
        cycles = cycles + 1;
        if ((c_done && d_done) || wrong != 0 || cycles > 20000) begin
            if (c_done && d_done && wrong == 0)
                $display("PASSED: %0d values, %0d bytes, %0d floats", value_count, c_got, d_got);
            else $display("FAILED: %0d wrong, at byte %0d, float %0d", wrong, c_got, d_got);
            $finish;
        end
    end
    always @(posedge clk) if (!rst && d_valid && d_ready) begin
        d_at = d_at + 32;
        #1 d_valid = 1'b0;
    end
endmodule
