"""What `tierscope bench` measures: one file a room, one function a bench, in the order they are printed."""
