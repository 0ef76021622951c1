typedef int fedcodec_empty;
