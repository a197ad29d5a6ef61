"""What a run tells: episode statistics, progress.csv, TensorBoard, the console, videos.

Empty on purpose, so that reading a progress.csv imports neither torch nor numpy.
"""
